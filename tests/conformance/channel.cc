// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels: capacity and rendezvous, order, close and drain, early ends; on one cord, several, and plain threads.
#include "conformance.h"
#include "cord_support.h"
#include "doomed.h"

#include <numeric>
#include <thread>
#include <vector>

using namespace support;

namespace {

bool waits(fiber_t fiber) { return fiber_state(fiber) == FIBER_WAITING; }

// A channel of ints, ended with its scope.
struct Channel {
    fiber_chan_t chan{};
    explicit Channel(size_t capacity) { EXPECT_EQ(fiber_chan_create(&chan, sizeof(int), capacity), 0); }
    ~Channel() { EXPECT_EQ(fiber_chan_destroy(chan), 0); }
    Channel(const Channel &) = delete;
    Channel &operator=(const Channel &) = delete;

    int send(int item, int64_t timeout_ns = FIBER_FOREVER) const {
        return fiber_chan_send_timeout(chan, &item, timeout_ns);
    }
    int try_send(int item) const { return fiber_chan_try_send(chan, &item); }
    // The item, which is not negative; or the error.
    int receive(int64_t timeout_ns = FIBER_FOREVER) const {
        int item = -1;
        const int error = fiber_chan_recv_timeout(chan, &item, timeout_ns);
        if (error) {
            EXPECT_EQ(item, -1);
        } // it was not touched
        return error ? error : item;
    }
    int try_receive() const {
        int item = -1;
        const int error = fiber_chan_try_recv(chan, &item);
        return error ? error : item;
    }
    int64_t count() const { return fiber_chan_count(chan); }
};

TEST(Channel, HoldsItsCapacityInOrder) {
    Channel channel(3);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 3; i++) EXPECT_EQ(channel.send(10 * round + i, 0), 0);
        EXPECT_EQ(channel.send(99, 0), -ETIMEDOUT);
        EXPECT_EQ(channel.try_send(99), -EAGAIN);
        EXPECT_EQ(channel.count(), 3);
        EXPECT_EQ(channel.receive(), 10 * round);
        EXPECT_EQ(channel.try_send(10 * round + 3), 0);
        for (int i = 1; i < 4; i++) EXPECT_EQ(channel.receive(0), 10 * round + i);
        EXPECT_EQ(channel.receive(0), -ETIMEDOUT);
        EXPECT_EQ(channel.try_receive(), -EAGAIN);
    }
    EXPECT_EQ(channel.send(1, FIBER_MSEC(1)), 0);
}

TEST(Channel, TRAP_OfSizeZeroIsARendezvous) {
    Channel channel(0);
    EXPECT_EQ(channel.send(1, 0), -ETIMEDOUT);
    EXPECT_EQ(channel.try_receive(), -EAGAIN);
    auto sender = [&] { EXPECT_EQ(channel.send(7), 0); };
    const fiber_t sends = start(sender);
    EXPECT_TRUE(waits(sends));
    EXPECT_EQ(channel.count(), 0);
    EXPECT_EQ(channel.receive(), 7);
    join(sends);
    auto receiver = [&] { EXPECT_EQ(channel.receive(), 8); };
    const fiber_t receives = start(receiver);
    EXPECT_TRUE(waits(receives));
    EXPECT_EQ(channel.try_send(8), 0);
    EXPECT_EQ(channel.try_send(9), -EAGAIN); // it has one already
    join(receives);
}

TEST(Channel, SendersAndReceiversAreServedInOrder) {
    for (size_t capacity : {0, 2}) {
        Channel channel(capacity);
        Trace trace;
        struct Sender {
            Channel *channel;
            int item;
            void operator()() const { EXPECT_EQ(channel->send(item), 0); }
        };
        std::vector<Sender> senders;
        for (int i = 0; i < 5; i++) senders.push_back({&channel, i});
        std::vector<fiber_t> fibers;
        for (Sender &sender : senders) fibers.push_back(start(sender));
        for (int i = 0; i < 5; i++) EXPECT_EQ(channel.receive(), i);
        for (fiber_t fiber : fibers) join(fiber);
        struct Receiver {
            Channel *channel;
            Trace *trace;
            char name;
            void operator()() const {
                const int item = channel->receive();
                *trace += name;
                *trace += char('0' + item);
            }
        };
        std::vector<Receiver> receivers;
        for (char name : {'a', 'b', 'c'}) receivers.push_back({&channel, &trace, name});
        fibers.clear();
        for (Receiver &receiver : receivers) fibers.push_back(start(receiver));
        for (int i = 0; i < 3; i++) EXPECT_EQ(channel.send(i, 0), 0);
        for (fiber_t fiber : fibers) join(fiber);
        EXPECT_EQ(trace, "a0b1c2");
    }
}

TEST(Channel, ReportsItsCapacityAndWhetherItIsClosed) {
    for (size_t capacity : {0, 1, 1000}) {
        fiber_chan_t chan{};
        ASSERT_EQ(fiber_chan_create(&chan, sizeof(int), capacity), 0);
        EXPECT_EQ(fiber_chan_capacity(chan), int64_t(capacity));
        EXPECT_EQ(fiber_chan_is_closed(chan), 0);
        const int item = 1;
        EXPECT_EQ(fiber_chan_try_send(chan, &item), capacity ? 0 : -EAGAIN);
        EXPECT_EQ(fiber_chan_close(chan), 0);
        EXPECT_EQ(fiber_chan_is_closed(chan), 1); // with the item still in it
        EXPECT_EQ(fiber_chan_capacity(chan), int64_t(capacity));
        EXPECT_EQ(fiber_chan_destroy(chan), 0);
        EXPECT_EQ(fiber_chan_is_closed(chan), -ESRCH);
        EXPECT_EQ(fiber_chan_capacity(chan), -ESRCH);
    }
    EXPECT_EQ(fiber_chan_is_closed(fiber_chan_t{0}), -EINVAL);
    EXPECT_EQ(fiber_chan_capacity(fiber_chan_t{0}), -EINVAL);
}

TEST(Channel, ItemsOfEverySize) {
    for (size_t size : {size_t{1}, size_t{3}, size_t{8}, size_t{100}, size_t{FIBER_CHAN_ITEM_MAX}}) {
        for (size_t capacity : {0, 1, 7}) {
            fiber_chan_t chan{};
            EXPECT_EQ(fiber_chan_create(&chan, size, capacity), 0);
            auto pattern = [&](int i) { return std::string(size, char('a' + i)); };
            auto sender = [&] {
                for (int i = 0; i < 20; i++) EXPECT_EQ(fiber_chan_send(chan, pattern(i).data()), 0);
            };
            const fiber_t fiber = start(sender);
            for (int i = 0; i < 20; i++) {
                std::string item(size + 1, '#');
                EXPECT_EQ(fiber_chan_recv(chan, item.data()), 0);
                EXPECT_EQ(item, pattern(i) + '#'); // and no byte more
            }
            join(fiber);
            EXPECT_EQ(fiber_chan_destroy(chan), 0);
        }
    }
}

TEST(Channel, MisuseIsAnError) {
    fiber_chan_t chan{};
    int item = 0;
    EXPECT_EQ(fiber_chan_create(nullptr, 4, 1), -EINVAL);
    EXPECT_EQ(fiber_chan_create(&chan, 0, 1), -EINVAL);
    EXPECT_EQ(fiber_chan_create(&chan, FIBER_CHAN_ITEM_MAX + 1, 1), -EINVAL);
    EXPECT_EQ(fiber_chan_create(&chan, 4, SIZE_MAX / 2), -ENOMEM);
    EXPECT_EQ(fiber_chan_send(chan, &item), -EINVAL); // zero
    EXPECT_EQ(fiber_chan_destroy(chan), -EINVAL);
    EXPECT_EQ(fiber_chan_create(&chan, sizeof item, 1), 0);
    EXPECT_EQ(fiber_chan_send(chan, nullptr), -EINVAL);
    EXPECT_EQ(fiber_chan_recv(chan, nullptr), -EINVAL);
    EXPECT_EQ(fiber_chan_try_send(chan, nullptr), -EINVAL);
    EXPECT_EQ(fiber_chan_try_recv(chan, nullptr), -EINVAL);
    EXPECT_EQ(fiber_chan_send_timeout(chan, &item, -1), -EINVAL);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_chan_send(chan, &item), -EPERM);
    EXPECT_EQ(fiber_chan_try_send(chan, &item), 0);
    EXPECT_EQ(fiber_chan_recv_timeout(chan, &item, 0), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_chan_destroy(chan), 0); // with an item in it
    EXPECT_EQ(fiber_chan_send(chan, &item), -ESRCH);
    EXPECT_EQ(fiber_chan_try_recv(chan, &item), -ESRCH);
    EXPECT_EQ(fiber_chan_close(chan), -ESRCH);
    EXPECT_EQ(fiber_chan_count(chan), -ESRCH);
    EXPECT_EQ(fiber_chan_destroy(chan), -ESRCH);
    EXPECT_EQ(fiber_chan_send(fiber_chan_t{self().id}, &item), -EINVAL); // a fiber's
    fiber_chan_t next{};
    EXPECT_EQ(fiber_chan_create(&next, sizeof item, 1), 0);
    EXPECT_NE(next.id, chan.id);
    EXPECT_EQ(fiber_chan_send(chan, &item), -ESRCH);
    EXPECT_EQ(fiber_chan_count(next), 0);
    EXPECT_EQ(fiber_chan_destroy(next), 0);
}

// --- Close -----------------------------------------------------------------------------------------------------------

TEST(ChannelClose, TRAP_ReadersDrainTheRestAndWritersFailAtOnce) {
    Channel channel(3);
    EXPECT_EQ(channel.send(1), 0);
    EXPECT_EQ(channel.send(2), 0);
    EXPECT_EQ(fiber_chan_close(channel.chan), 0);
    EXPECT_EQ(fiber_chan_close(channel.chan), -EPIPE);
    EXPECT_EQ(channel.send(3), -EPIPE);
    EXPECT_EQ(channel.try_send(3), -EPIPE);
    EXPECT_EQ(channel.receive(), 1);
    EXPECT_EQ(channel.try_receive(), 2);
    EXPECT_EQ(channel.receive(), -EPIPE);
    EXPECT_EQ(channel.try_receive(), -EPIPE);
    EXPECT_EQ(channel.receive(FIBER_MSEC(1)), -EPIPE);
}

TEST(ChannelClose, TRAP_BlockedReadersAndWritersReturn) {
    for (size_t capacity : {0, 1}) {
        Channel empty(capacity), full(capacity);
        if (capacity) {
            EXPECT_EQ(full.send(1), 0);
        }
        auto reads = [&] { return pointer(empty.receive()); };
        auto writes = [&] { return pointer(full.send(2)); };
        const fiber_t fibers[] = {start(reads), start(reads), start(writes), start(writes)};
        EXPECT_EQ(fiber_chan_destroy(empty.chan), -EBUSY);
        EXPECT_EQ(fiber_chan_close(empty.chan), 0);
        EXPECT_EQ(fiber_chan_close(full.chan), 0);
        for (fiber_t fiber : fibers) EXPECT_EQ(join(fiber), pointer(-EPIPE));
        EXPECT_EQ(full.receive(), capacity ? 1 : -EPIPE); // the items of those that waited were not sent
        EXPECT_EQ(full.receive(), -EPIPE);
    }
}

// --- Cancel ----------------------------------------------------------------------------------------------------------

TEST(ChannelCancel, TRAP_EndsAWaitAndLaterItemsGoToTheOthers) {
    Channel channel(0);
    auto reads = [&] { return pointer(channel.receive()); };
    const fiber_t fibers[] = {start(reads), start(reads), start(reads), start(reads)};
    EXPECT_EQ(fiber_cancel(fibers[0], nullptr), 0);
    EXPECT_EQ(fiber_interrupt(fibers[2], nullptr), 0);
    EXPECT_EQ(channel.send(1), 0);
    EXPECT_EQ(channel.send(2), 0);
    EXPECT_EQ(join(fibers[0]), pointer(-ECANCELED));
    EXPECT_EQ(join(fibers[1]), pointer(1));
    EXPECT_EQ(join(fibers[2]), pointer(-EINTR));
    EXPECT_EQ(join(fibers[3]), pointer(2));
    run([&] {
        const int64_t until = fiber_now() + FIBER_MSEC(1);
        EXPECT_EQ(channel.receive(FIBER_MSEC(1)), -ETIMEDOUT);
        EXPECT_GE(fiber_now(), until);
        EXPECT_EQ(channel.send(1, FIBER_MSEC(1)), -ETIMEDOUT);
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(channel.send(1), -ECANCELED);
        EXPECT_EQ(channel.receive(), -ECANCELED);
    });
}

TEST(ChannelCancel, TRAP_AnItemThatCameBeforeTheCancelIsNotLost) {
    Channel channel(0);
    auto reads = [&] {
        EXPECT_EQ(channel.receive(), 5);
        EXPECT_EQ(fiber_sleep(0), -ECANCELED);
    };
    const fiber_t fiber = start(reads);
    EXPECT_EQ(channel.try_send(5), 0); // after send() the reader might have had its turn
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
}

TEST(ChannelCancel, TheItemOfACancelledSenderIsNotSent) {
    Channel channel(1);
    EXPECT_EQ(channel.send(1), 0);
    auto writes = [&] { return pointer(channel.send(2)); };
    const fiber_t fiber = start(writes);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(channel.receive(), 1);
    EXPECT_EQ(join(fiber), pointer(-ECANCELED));
    EXPECT_EQ(channel.count(), 0);
}

TEST(ChannelCancel, TRAP_ABusyPairDoesNotStarveTheOthers) {
    Channel channel(1);
    bool slept = false;
    auto sleeper = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        slept = true;
    };
    const fiber_t fiber = start(sleeper);
    for (int i = 0; i < 100'000'000 && !slept; i++) { // never has to wait
        EXPECT_EQ(channel.send(i), 0);
        EXPECT_EQ(channel.receive(), i);
    }
    EXPECT_TRUE(slept);
    join(fiber);
}

// --- Threads ---------------------------------------------------------------------------------------------------------

TEST(ChannelThreads, TRAP_AHundredThousandMessagesThroughSizeOne) {
    Channel channel(1);
    const int messages = often(100'000, 1000);
    auto produce = [&] {
        for (int i = 0; i < messages; i++) EXPECT_EQ(channel.send(i), 0);
        EXPECT_EQ(fiber_chan_close(channel.chan), 0);
    };
    const fiber_t fiber = start(produce);
    int next = 0;
    for (int item; (item = channel.receive()) >= 0; next++) EXPECT_EQ(item, next);
    EXPECT_EQ(next, messages);
    join(fiber);
}

TEST(ChannelThreads, EveryItemArrivesOnceBetweenCordsAndPlainThreads) {
    static const int each = often(500, 10);
    constexpr int producers = 6;
    for (size_t capacity : {0, 1, 16}) {
        Channel channel(capacity);
        std::atomic<int> left{producers};
        std::vector<std::atomic<int>> seen(size_t(each * producers));
        struct Producer {
            Channel *channel;
            std::atomic<int> *left;
            int number;
            void operator()() const {
                for (int i = 0; i < each; i++) EXPECT_EQ(channel->send(number * each + i), 0);
                if (--*left == 0) {
                    EXPECT_EQ(fiber_chan_close(channel->chan), 0);
                }
            }
        };
        auto consume = [&] {
            std::vector<int> last(producers, -1);
            for (int item; (item = channel.receive()) >= 0;) {
                seen[size_t(item)]++;
                EXPECT_LT(last[size_t(item / each)], item); // of each sender in order
                last[size_t(item / each)] = item;
            }
        };
        std::vector<Producer> makers;
        for (int i = 0; i < producers; i++) makers.push_back({&channel, &left, i});
        {
            Worker workers[2];
            std::vector<fiber_t> fibers;
            std::vector<Thread> threads;
            for (int i = 0; i < 2; i++) {
                fibers.push_back(spawn_on(workers[i], makers[size_t(2 * i)]));
                fibers.push_back(spawn_on(workers[i], makers[size_t(2 * i + 1)]));
                fibers.push_back(spawn_on(workers[i], consume));
                threads.emplace_back(makers[size_t(4 + i)]);
                threads.emplace_back(consume);
            }
            for (fiber_t fiber : fibers) join(fiber);
            for (Thread &thread : threads) thread.join();
        }
        for (const std::atomic<int> &count : seen) EXPECT_EQ(count, 1);
    }
}

TEST(ChannelThreads, TRAP_ItemsOfAFiberThatNeverRunsAgainComeFirst) {
    for (size_t capacity : {0, 2}) {
        Channel channel(capacity);
        Doomed doomed([&] { channel.receive(); }, 2);
        EXPECT_EQ(channel.send(1), 0);
        EXPECT_EQ(channel.send(2), 0);
        for (int i = 3; i < 3 + int(capacity); i++) EXPECT_EQ(channel.send(i), 0);
        EXPECT_EQ(fiber_chan_close(channel.chan), 0);
        doomed.end();
        EXPECT_EQ(channel.count(), 2 + int64_t(capacity));
        for (int i = 1; i < 3 + int(capacity); i++) EXPECT_EQ(channel.receive(), i);
        EXPECT_EQ(channel.receive(), -EPIPE);
    }
}

TEST(ChannelThreads, AThreadThatEndsWhileItsFibersWaitLeavesNoTrace) {
    NEEDS_THREADS();
    Channel channel(0);
    in_thread([&] {
        auto reads = [&] { channel.receive(); };
        start(reads);
        start(reads);
    });
    EXPECT_EQ(channel.try_send(1), -EAGAIN);
    in_thread([&] {
        auto writes = [&] { channel.send(1); };
        start(writes);
    });
    EXPECT_EQ(channel.try_receive(), -EAGAIN);
}

TEST(ChannelThreads, APlainThreadTimesOut) {
    NEEDS_THREADS();
    Channel channel(0);
    in_thread([&] {
        EXPECT_EQ(channel.receive(FIBER_MSEC(1)), -ETIMEDOUT);
        EXPECT_EQ(channel.send(1, FIBER_MSEC(1)), -ETIMEDOUT);
    });
    EXPECT_EQ(channel.try_receive(), -EAGAIN);
}

} // namespace
