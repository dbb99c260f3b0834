// SPDX-License-Identifier: MIT OR Apache-2.0
// Select: one of several wins, and the others leave no trace.
#include "conformance.h"
#include "cord_support.h"
#include "doomed.h"

#include <malloc.h>
#include <memory>
#include <poll.h>
#include <thread>
#include <vector>

using namespace support;

namespace {

bool waits(fiber_t fiber) { return fiber_state(fiber) == FIBER_WAITING; }

fiber_case_t on(int kind) {
    fiber_case_t one{};
    one.kind = kind;
    return one;
}
fiber_case_t send(fiber_chan_t chan, int *item) {
    fiber_case_t one = on(FIBER_CASE_SEND);
    one.chan = chan;
    one.item = item;
    return one;
}
fiber_case_t receive(fiber_chan_t chan, int *item) {
    fiber_case_t one = send(chan, item);
    one.kind = FIBER_CASE_RECV;
    return one;
}
fiber_case_t timer(int64_t ns) {
    fiber_case_t one = on(FIBER_CASE_TIMER);
    one.number = ns;
    return one;
}
fiber_case_t ended(fiber_t fiber) {
    fiber_case_t one = on(FIBER_CASE_JOIN);
    one.fiber = fiber;
    return one;
}
fiber_case_t event_set(fiber_event_t *event) {
    fiber_case_t one = on(FIBER_CASE_EVENT);
    one.object = event;
    return one;
}
fiber_case_t permits(fiber_sem_t *sem, int64_t n) {
    fiber_case_t one = on(FIBER_CASE_SEM);
    one.object = sem;
    one.number = n;
    return one;
}
fiber_case_t ready(int fd, int events) {
    fiber_case_t one = on(FIBER_CASE_FD);
    one.fd = fd;
    one.number = events;
    return one;
}

struct Channel {
    fiber_chan_t chan{};
    explicit Channel(size_t capacity) { EXPECT_EQ(fiber_chan_create(&chan, sizeof(int), capacity), 0); }
    ~Channel() { EXPECT_EQ(fiber_chan_destroy(chan), 0); } // nobody is left in it
    Channel(const Channel &) = delete;
    Channel &operator=(const Channel &) = delete;
    operator fiber_chan_t() const { return chan; }
    int put(int item) const { return fiber_chan_try_send(chan, &item); }
    int take() const {
        int item = -1;
        const int error = fiber_chan_try_recv(chan, &item);
        return error ? error : item;
    }
};

TEST(Select, WhatIsReadyIsTakenAndNothingElse) {
    Channel a(1), b(1);
    fiber_event_t event{};
    fiber_sem_t sem{};
    int got = 0, given = 5;
    fiber_case_t cases[] = {receive(a, &got), event_set(&event), permits(&sem, 2), timer(FIBER_SEC(1000))};
    EXPECT_EQ(fiber_select(cases, 4, 0), -ETIMEDOUT);
    EXPECT_EQ(b.put(1), 0);
    EXPECT_EQ(a.put(7), 0);
    EXPECT_EQ(fiber_select(cases, 4, 0), 0);
    EXPECT_EQ(cases[0].result, 0);
    EXPECT_EQ(got, 7);
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(fiber_select(cases, 4, FIBER_FOREVER), 1);
    EXPECT_EQ(fiber_event_is_set(&event), 0);
    EXPECT_EQ(fiber_sem_post(&sem, 3), 0);
    EXPECT_EQ(fiber_select(cases, 4, FIBER_FOREVER), 2);
    EXPECT_EQ(fiber_sem_value(&sem), 1);
    fiber_case_t sends[] = {send(b, &given), send(a, &given)};
    EXPECT_EQ(fiber_select(sends, 2, FIBER_FOREVER), 1); // b is full
    EXPECT_EQ(a.take(), 5);
    EXPECT_EQ(b.take(), 1);
    fiber_case_t now[] = {on(FIBER_CASE_NONE), timer(0)};
    EXPECT_EQ(fiber_select(now, 2, FIBER_FOREVER), 1);
}

TEST(Select, TRAP_TheFirstOfEachKindWinsAndTheLosersLeaveNoTrace) {
    for (int winner = 0; winner < 5; winner++) {
        Channel in(0), out(0);
        fiber_event_t event{};
        fiber_sem_t sem{};
        int got = 0, given = 5, index = -9;
        auto wakes = [&] {
            EXPECT_EQ(fiber_yield(), 0);
            return pointer(77);
        };
        const fiber_t joined = start(wakes);
        fiber_case_t cases[] = {receive(in, &got), send(out, &given), event_set(&event),
                                permits(&sem, 1),  ended(joined),     timer(FIBER_SEC(1000))};
        auto body = [&] { index = fiber_select(cases, 6, FIBER_FOREVER); };
        const fiber_t fiber = start(body);
        EXPECT_TRUE(waits(fiber));
        EXPECT_EQ(fiber_event_destroy(&event), -EBUSY);
        switch (winner) {
        case 0: EXPECT_EQ(in.put(8), 0); break;
        case 1: EXPECT_EQ(out.take(), 5); break;
        case 2: EXPECT_EQ(fiber_event_set(&event), 0); break;
        case 3: EXPECT_EQ(fiber_sem_post(&sem, 1), 0); break;
        case 4: EXPECT_EQ(fiber_wakeup(joined), 0); break;
        }
        join(fiber);
        EXPECT_EQ(index, winner);
        EXPECT_EQ(cases[winner].result, 0);
        EXPECT_EQ(got, winner == 0 ? 8 : 0);
        if (winner == 4) {
            EXPECT_EQ(cases[4].value, pointer(77));
            EXPECT_EQ(fiber_join(joined, nullptr), -ESRCH); // it has been joined
        } else {
            EXPECT_EQ(fiber_wakeup(joined), 0);
            EXPECT_EQ(join(joined), pointer(77));
        }
        // The losers have left no trace.
        EXPECT_EQ(in.put(1), -EAGAIN);
        EXPECT_EQ(out.take(), -EAGAIN);
        EXPECT_EQ(fiber_event_destroy(&event), 0);
        EXPECT_EQ(fiber_sem_destroy(&sem), 0);
        EXPECT_EQ(fiber_event_set(&event), 0);
        EXPECT_EQ(fiber_event_is_set(&event), 1);
        EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
        EXPECT_EQ(fiber_sem_value(&sem), 1);
    }
}

TEST(Select, TimersAndTheTimeout) {
    Channel never(0);
    int got = 0;
    int64_t until = fiber_now() + FIBER_MSEC(2);
    fiber_case_t cases[] = {receive(never, &got), timer(FIBER_SEC(1000)), timer(FIBER_MSEC(2))};
    EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), 2);
    EXPECT_GE(fiber_now(), until);
    until = fiber_now() + FIBER_MSEC(1);
    EXPECT_EQ(fiber_select(cases, 2, FIBER_MSEC(1)), -ETIMEDOUT);
    EXPECT_GE(fiber_now(), until);
    EXPECT_EQ(fiber_select(nullptr, 0, FIBER_MSEC(1)), -ETIMEDOUT);
    fiber_scope_t scope{};
    EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
    EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), -ETIMEDOUT);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
}

TEST(Select, TimesCountFromTheCallOn) {
    fiber_case_t cases[] = {timer(100), timer(99), timer(99)};
    EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), 1);
    cases[0] = timer(FIBER_MSEC(1));
    EXPECT_EQ(fiber_select(cases, 1, FIBER_MSEC(1)), 0); // what happened comes before that nothing did
    EXPECT_EQ(fiber_select(cases, 1, FIBER_MSEC(1) - 1), -ETIMEDOUT);
}

TEST(Select, EachReadyCaseHasItsTurn) {
    std::unique_ptr<Channel> channels[4];
    int items[4], counts[4] = {};
    std::vector<fiber_case_t> cases;
    for (int i = 0; i < 4; i++) {
        channels[i] = std::make_unique<Channel>(1);
        EXPECT_EQ(channels[i]->put(i), 0);
        cases.push_back(receive(*channels[i], &items[i]));
    }
    for (int i = 0; i < 100; i++) {
        const int index = fiber_select(cases.data(), 4, FIBER_FOREVER);
        counts[index]++;
        EXPECT_EQ(channels[index]->put(index), 0);
    }
    for (int count : counts) EXPECT_GE(count, 20);
}

TEST(Select, TRAP_SelectsThatAlternateDoNotStarveACase) {
    std::unique_ptr<Channel> channels[4];
    int items[4], counts[4] = {};
    std::vector<fiber_case_t> cases;
    for (int i = 0; i < 4; i++) {
        channels[i] = std::make_unique<Channel>(1);
        EXPECT_EQ(channels[i]->put(i), 0);
        cases.push_back(receive(*channels[i], &items[i]));
    }
    for (int i = 0; i < 200; i++) { // a period of two, and of four
        for (int pair : {0, 2, 0, 0}) {
            const int index = pair + fiber_select(cases.data() + pair, 2, FIBER_FOREVER);
            counts[index]++;
            EXPECT_EQ(channels[index]->put(index), 0);
        }
    }
    for (int i = 0; i < 4; i++) EXPECT_GE(counts[i], i < 2 ? 240 : 80) << i;
}

TEST(Select, MoreThanEightCasesAndTheSameTwice) {
    fiber_event_t events[20] = {};
    std::vector<fiber_case_t> cases;
    for (fiber_event_t &event : events) cases.push_back(event_set(&event));
    cases.push_back(event_set(&events[3]));
    int index = -1;
    auto body = [&] { index = fiber_select(cases.data(), int(cases.size()), FIBER_FOREVER); };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_event_set(&events[17]), 0);
    join(fiber);
    EXPECT_EQ(index, 17);
    fiber = start(body);
    EXPECT_EQ(fiber_event_set(&events[3]), 0);
    EXPECT_EQ(fiber_event_set(&events[3]), 0); // which it does not take too
    join(fiber);
    EXPECT_EQ(index, 3);
    EXPECT_EQ(fiber_event_is_set(&events[3]), 1);
    for (fiber_event_t &event : events) EXPECT_EQ(fiber_event_destroy(&event), 0);
}

TEST(Select, MisuseIsAnError) {
    int item = 0;
    fiber_case_t one = on(99);
    EXPECT_EQ(fiber_select(nullptr, 1, 0), -EINVAL);
    EXPECT_EQ(fiber_select(&one, -1, 0), -EINVAL);
    EXPECT_EQ(fiber_select(&one, 1, 0), -EINVAL);
    one = on(FIBER_CASE_NONE);
    EXPECT_EQ(fiber_select(&one, 1, -1), -EINVAL);
    EXPECT_EQ(fiber_select(&one, 1, 0), -ETIMEDOUT);
    for (fiber_case_t bad : {receive({}, nullptr), event_set(nullptr), permits(nullptr, 1), timer(-1), ready(0, 0)})
        EXPECT_EQ(fiber_select(&bad, 1, 0), -EINVAL);
    fiber_case_t gone[] = {receive({}, &item)}; // what the call of its own would say
    EXPECT_EQ(fiber_select(gone, 1, 0), 0);
    EXPECT_EQ(gone[0].result, -EINVAL);
    fiber_chan_t chan{};
    EXPECT_EQ(fiber_chan_create(&chan, sizeof item, 0), 0);
    EXPECT_EQ(fiber_chan_destroy(chan), 0);
    gone[0] = receive(chan, &item);
    EXPECT_EQ(fiber_select(gone, 1, FIBER_FOREVER), 0);
    EXPECT_EQ(gone[0].result, -ESRCH);
    gone[0] = ended(self());
    EXPECT_EQ(fiber_select(gone, 1, FIBER_FOREVER), 0);
    EXPECT_EQ(gone[0].result, -EDEADLK);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_select(gone, 1, 0), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
}

TEST(Select, AClosedChannelIsReady) {
    Channel a(0), b(0);
    int got = 0, given = 1, index = -1;
    fiber_case_t cases[] = {receive(a, &got), send(b, &given)};
    auto body = [&] { index = fiber_select(cases, 2, FIBER_FOREVER); };
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_chan_close(b), 0);
    join(fiber);
    EXPECT_EQ(index, 1);
    EXPECT_EQ(cases[1].result, -EPIPE);
    EXPECT_EQ(fiber_select(&cases[1], 1, 0), 0);
    EXPECT_EQ(cases[1].result, -EPIPE);
}

TEST(Select, SelectMeetsSelect) {
    Channel a(0), b(0);
    int to_b = 1, from_a = 0, index = -1;
    fiber_case_t theirs[] = {receive(a, &from_a), send(b, &to_b)};
    auto body = [&] { index = fiber_select(theirs, 2, FIBER_FOREVER); };
    const fiber_t fiber = start(body);
    int to_a = 2, from_b = 0;
    fiber_case_t ours[] = {send(a, &to_a), receive(b, &from_b)};
    const int own = fiber_select(ours, 2, FIBER_FOREVER);
    join(fiber);
    EXPECT_EQ(own, index); // one pair of cases, and not the other
    EXPECT_EQ(own == 0 ? from_a : from_b, own == 0 ? 2 : 1);
    EXPECT_EQ(own == 0 ? from_b : from_a, 0);
}

TEST(Select, ACaseDoesNotMeetAnotherOfTheSameSelect) {
    Channel a(0);
    int given = 1, got = 0;
    fiber_case_t both[] = {send(a, &given), receive(a, &got)};
    EXPECT_EQ(fiber_select(both, 2, FIBER_MSEC(1)), -ETIMEDOUT);
    int index = -1;
    auto body = [&] { index = fiber_select(both, 2, FIBER_FOREVER); };
    const fiber_t fiber = start(body);
    EXPECT_EQ(a.put(9), 0);
    join(fiber);
    EXPECT_EQ(index, 1);
    EXPECT_EQ(got, 9);
}

// --- Cancel ----------------------------------------------------------------------------------------------------------

TEST(SelectCancel, LeavesNoTrace) {
    Channel a(0);
    fiber_event_t event{};
    fiber_sem_t sem{};
    auto sleeps = [] { return pointer(fiber_yield()); };
    const fiber_t target = start(sleeps);
    int got = 0;
    fiber_case_t cases[] = {receive(a, &got), event_set(&event), permits(&sem, 2), ended(target),
                            timer(FIBER_SEC(1000))};
    auto body = [&] { return pointer(fiber_select(cases, 5, FIBER_FOREVER)); };
    const fiber_t cancelled = start(body);
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    const fiber_t interrupted = start(body);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    EXPECT_EQ(join(interrupted), pointer(-EINTR));
    EXPECT_EQ(fiber_event_destroy(&event), 0);
    EXPECT_EQ(fiber_sem_destroy(&sem), 0);
    EXPECT_EQ(a.put(1), -EAGAIN);
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(join(target), pointer(0));
    run([&] {
        EXPECT_EQ(fiber_sem_post(&sem, 2), 0);
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), -ECANCELED);
        EXPECT_EQ(fiber_sem_value(&sem), 2);
    });
}

TEST(SelectCancel, TRAP_ALargeRequestThatLosesLetsTheOthersPass) {
    fiber_event_t event{};
    fiber_sem_t sem{};
    fiber_case_t cases[] = {event_set(&event), permits(&sem, 5)};
    auto selects = [&] { return pointer(fiber_select(cases, 2, FIBER_FOREVER)); };
    auto small = [&] { return pointer(fiber_sem_wait(&sem, 1)); };
    const fiber_t first = start(selects), second = start(small);
    EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
    EXPECT_TRUE(waits(second));
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(join(first), pointer(0));
    EXPECT_EQ(join(second), pointer(0));
}

TEST(SelectCancel, TRAP_WhatWasGrantedBeforeTheCancelCounts) {
    Channel a(0), b(0);
    int got = 0, other = 0;
    fiber_case_t cases[] = {receive(a, &got), receive(b, &other)};
    auto body = [&] {
        EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 0);
        EXPECT_EQ(fiber_sleep(0), -ECANCELED);
    };
    const fiber_t fiber = start(body);
    EXPECT_EQ(a.put(3), 0);
    EXPECT_EQ(b.put(4), -EAGAIN); // it is decided
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(got, 3);
    EXPECT_EQ(other, 0);
}

// --- Descriptors -----------------------------------------------------------------------------------------------------

TEST(SelectDescriptor, IsReadyNowOrLaterOrLoses) {
    NEEDS_IO();
    Pipe pipe;
    fiber_event_t event{};
    fiber_case_t cases[] = {ready(pipe.read_end, POLLIN), event_set(&event), ready(pipe.write_end, POLLOUT)};
    EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), 2);
    EXPECT_EQ(cases[2].result, POLLOUT);
    auto body = [&] { return pointer(fiber_select(cases, 2, FIBER_FOREVER)); };
    const auto fibers = stats().fibers;
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(join(fiber), pointer(1));
    EXPECT_EQ(stats().fibers, fibers); // who watched the descriptor is gone
    EXPECT_EQ(stats().ops_in_flight, 0u);
    fiber = start(body);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
    EXPECT_EQ(join(fiber), pointer(0));
    EXPECT_EQ(cases[0].result, POLLIN);
    char byte;
    EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1); // nothing was read
    EXPECT_EQ(fiber_select(cases, 1, FIBER_MSEC(1)), -ETIMEDOUT);
    fiber = start(body);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), pointer(-ECANCELED));
    EXPECT_EQ(stats().fibers, fibers);
    EXPECT_EQ(stats().ops_in_flight, 0u);
}

TEST(SelectDescriptor, ThatIsClosedOrNone) {
    NEEDS_IO();
    Pipe pipe;
    fiber_case_t one = ready(pipe.read_end, POLLIN);
    auto body = [&] { return pointer(fiber_select(&one, 1, FIBER_FOREVER)); };
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_EQ(fiber_close(pipe.read_end), 0);
    pipe.read_end = -1;
    EXPECT_EQ(join(fiber), pointer(0));
    EXPECT_EQ(one.result, -EBADF);
    EXPECT_EQ(fiber_select(&one, 1, FIBER_FOREVER), 0);
    EXPECT_EQ(one.result, -EBADF);
}

// --- Threads ---------------------------------------------------------------------------------------------------------

TEST(SelectThreads, TheEndOfAFiberOfAnotherCord) {
    Worker worker;
    auto body = [] { return pointer(fiber_yield() + 5); };
    const fiber_t target = spawn_on(worker, body);
    fiber_event_t event{};
    fiber_case_t cases[] = {event_set(&event), ended(target)};
    EXPECT_EQ(fiber_select(cases, 2, FIBER_MSEC(2)), -ETIMEDOUT);
    await([&] { return waits(target); });
    EXPECT_EQ(fiber_wakeup(target), 0);
    EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 1);
    EXPECT_EQ(cases[1].result, 0);
    EXPECT_EQ(cases[1].value, pointer(5));
    EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 1);
    EXPECT_EQ(cases[1].result, -ESRCH);
    const fiber_t loser = spawn_on(worker, body); // one that loses can be joined afterwards
    cases[1] = ended(loser);
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 0);
    await([&] { return waits(loser); });
    EXPECT_EQ(fiber_wakeup(loser), 0);
    EXPECT_EQ(join(loser), pointer(5));
}

TEST(SelectThreads, TRAP_SelectAgainstSelectAcrossCordsClaimsBothOrNeither) {
    Channel a(0), b(0);
    const int turns = often(2000, 10);
    std::atomic<long> sent{0}, received{0};
    std::atomic<int> exchanges{0};
    auto body = [&] { // each sends on one and receives on the other, whichever comes first
        for (int i = 1; i <= turns; i++) {
            int given = i, got = 0, given_too = i, got_too = 0;
            fiber_case_t cases[] = {send(a, &given), receive(b, &got), send(b, &given_too), receive(a, &got_too)};
            const int index = fiber_select(cases, 4, FIBER_MSEC(20));
            if (index == -ETIMEDOUT) return; // the others have ended
            EXPECT_GE(index, 0);
            EXPECT_EQ(cases[index].result, 0);
            if (index % 2 == 0) sent += i;
            received += index == 1 ? got : index == 3 ? got_too : 0;
            exchanges++;
        }
    };
    {
        Worker workers[2];
        std::vector<fiber_t> fibers;
        for (Worker &worker : workers)
            for (int i = 0; i < 2; i++) fibers.push_back(spawn_on(worker, body));
        Thread threads[] = {Thread(body), Thread(body)};
        for (fiber_t fiber : fibers) join(fiber);
        for (Thread &thread : threads) thread.join();
    }
    EXPECT_EQ(sent, received);
    EXPECT_EQ(exchanges % 2, 0);
    EXPECT_GT(exchanges, 0);
}

TEST(SelectThreads, TRAP_WhatWasGivenToAFiberThatNeverRunsAgainPassesOn) {
    for (int kind = 0; kind < 3; kind++) {
        Channel a(0), losing(0);
        fiber_event_t event{};
        fiber_sem_t sem{};
        auto forever = [] { fiber_yield(); };
        const fiber_t target = start(forever);
        Doomed doomed([&] {
            int got = 0, other = 0;
            fiber_case_t cases[] = {receive(a, &got), event_set(&event), permits(&sem, 1), receive(losing, &other),
                                    ended(target)};
            fiber_select(cases, 5, FIBER_FOREVER);
        });
        if (kind == 0) { EXPECT_EQ(a.put(6), 0); }
        if (kind == 1) { EXPECT_EQ(fiber_event_set(&event), 0); }
        if (kind == 2) { EXPECT_EQ(fiber_sem_post(&sem, 1), 0); }
        doomed.end();
        EXPECT_EQ(fiber_wakeup(target), 0);
        join(target);
        EXPECT_EQ(a.take(), kind == 0 ? 6 : -EAGAIN);
        EXPECT_EQ(fiber_event_is_set(&event), kind == 1);
        EXPECT_EQ(fiber_sem_value(&sem), kind == 2);
        EXPECT_EQ(fiber_event_destroy(&event), 0);
        EXPECT_EQ(fiber_sem_destroy(&sem), 0);
        EXPECT_EQ(losing.put(1), -EAGAIN);
    }
}

// When a select has won, who watched its descriptor is ended before it returns; the thread may end before that.
TEST(SelectThreads, TRAP_AnItemIsNotLostWhileADescriptorIsLeft) {
    NEEDS_IO();
    Channel channel(0);
    for (int turns = 0; turns < 4; turns++) {
        Pipe pipe;
        int got = 0, index = -9;
        auto selects = [&] {
            fiber_case_t cases[] = {receive(channel, &got), ready(pipe.read_end, POLLIN)};
            index = fiber_select(cases, 2, FIBER_FOREVER);
        };
        auto body = [&] {
            const fiber_t fiber = create(selects, On(this_cord_handle()).daemon());
            EXPECT_EQ(fiber_start(fiber), 0);
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0); // the helper has begun
            EXPECT_EQ(channel.put(7), 0);
            for (int i = 0; i < turns; i++) EXPECT_EQ(fiber_reschedule(), 0);
        };
        join_cord(start_cord(body));
        if (index == 0) {
            EXPECT_EQ(got, 7);
            EXPECT_EQ(channel.take(), -EAGAIN);
        } else {
            EXPECT_EQ(index, -9);
            EXPECT_EQ(channel.take(), 7);
        }
    }
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
TEST(SelectThreads, TRAP_TheMemoryOfThoseThatNeverRunAgainIsFreed) {
    NEEDS_IO();
    if (FIBERRT_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer's allocator does not tell what is in use";
    enum How { waiting, completed, cancelled, leaving_a_descriptor, hows };
    for (int how = 0; how < hows; how++) {
        Pipe pipe;
        auto round = [&] {
            fiber_event_t events[200] = {};
            auto selects = [&] {
                fiber_case_t cases[201];
                for (int i = 0; i < 200; i++) cases[i] = event_set(&events[i]);
                cases[200] = how == leaving_a_descriptor ? ready(pipe.read_end, POLLIN) : on(FIBER_CASE_NONE);
                fiber_select(cases, 201, FIBER_FOREVER);
            };
            auto body = [&] {
                std::vector<fiber_t> fibers(20);
                for (fiber_t &fiber : fibers) {
                    fiber = create(selects, On(this_cord_handle()).daemon());
                    EXPECT_EQ(fiber_start(fiber), 0);
                }
                if (how == leaving_a_descriptor) { EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0); }
                for (fiber_t fiber : fibers) {
                    if (how == completed) { EXPECT_EQ(fiber_event_set(&events[5]), 0); }
                    if (how >= cancelled) { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); }
                }
                if (how == leaving_a_descriptor) { EXPECT_EQ(fiber_reschedule(), 0); }
            };
            join_cord(start_cord(body));
            for (fiber_event_t &event : events) EXPECT_EQ(fiber_event_destroy(&event), 0);
        };
        round();
        const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd; // 0 with AddressSanitizer, which tells itself
        for (int i = 0; i < 3; i++) round();
        const size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
        EXPECT_LT(after, before + 500'000) << how; // one round takes 1 MB
    }
}
#endif

TEST(SelectThreads, APlainThreadSelects) {
    NEEDS_THREADS();
    Channel a(0);
    fiber_event_t event{};
    std::thread thread([&] {
        int got = 0;
        fiber_case_t cases[] = {receive(a, &got), event_set(&event), timer(FIBER_SEC(1000))};
        EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), 0);
        EXPECT_EQ(got, 4);
        cases[2] = timer(FIBER_MSEC(1));
        EXPECT_EQ(fiber_select(cases, 3, FIBER_FOREVER), 2);
        EXPECT_EQ(fiber_select(cases, 2, FIBER_MSEC(1)), -ETIMEDOUT);
    });
    await([&] { return a.put(4) == 0; });
    thread.join();
    EXPECT_EQ(fiber_event_destroy(&event), 0);
}

} // namespace
