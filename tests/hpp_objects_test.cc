// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt.hpp: locks, captures by value, fiber-local values, descriptors.
#include "hpp_support.h"

#include <array>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <set>
#include <shared_mutex>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>
#include <vector>

// ---- locks ----------------------------------------------------------------------------------------------------------

TEST(Mutex, ServesTheGuardsOfTheStandard) {
    f::mutex one, two;
    int inside = 0;
    auto work = [&] {
        for (int i = 0; i < 20; i++) {
            std::scoped_lock both(one, two);
            EXPECT_EQ(inside++, 0);
            f::this_fiber::reschedule();
            inside--;
        }
    };
    auto first = f::spawn(work);
    auto second = f::spawn(work);
    first.join();
    second.join();
    std::unique_lock<f::mutex> hold(one, std::defer_lock);
    EXPECT_TRUE(hold.try_lock());
    EXPECT_FALSE(f::spawn([&] { return one.try_lock(); }).join());
    EXPECT_FALSE(f::spawn([&] { return one.try_lock_for(1ms); }).join());
    EXPECT_EQ(code_of([&] { one.lock(); }), EDEADLK);
    hold.unlock();
    EXPECT_TRUE(hold.try_lock_for(hang));
    hold.unlock();
    EXPECT_TRUE(hold.try_lock_until(f::clock::now() + hang));
}

TEST(Mutex, ReportsAHolderThatHasDiedAndIsFree) {
    f::mutex mutex;
    f::spawn([&] { mutex.lock(); }).join();
    EXPECT_EQ(code_of([&] { mutex.lock(); }), EOWNERDEAD);
    std::lock_guard<f::mutex> hold(mutex);
}

TEST(ConditionVariable, WaitsWithAndWithoutAPredicate) {
    f::mutex mutex;
    f::condition_variable changed;
    int value = 0;
    auto setter = f::spawn([&] {
        for (int i = 1; i <= 3; i++) {
            {
                std::lock_guard<f::mutex> hold(mutex);
                value = i;
            }
            changed.notify_all();
            f::this_fiber::reschedule();
        }
    });
    std::unique_lock<f::mutex> hold(mutex);
    changed.wait(hold, [&] { return value == 3; });
    EXPECT_FALSE(changed.wait_for(hold, 1ms));
    EXPECT_FALSE(changed.wait_for(hold, 1ms, [&] { return value == 4; }));
    EXPECT_TRUE(changed.wait_for(hold, f::forever, [&] { return value == 3; }));
    auto notifier = f::spawn([&] {
        f::sleep_for(1ms);
        std::lock_guard<f::mutex> own(mutex);
        value = 5;
        changed.notify_all();
    });
    auto very_long = std::chrono::duration_cast<std::chrono::hours>(f::forever); // from now on it would be too long
    EXPECT_TRUE(changed.wait_for(hold, very_long, [&] { return value == 5; }));
    value = 3;
    EXPECT_TRUE(changed.wait_until(hold, std::chrono::steady_clock::now() + 1ms, [&] { return value == 3; }));
    setter.join();
    notifier.join();
    auto waiter = f::spawn([&] {
        std::unique_lock<f::mutex> own(mutex);
        changed.wait(own); // throws, with the mutex locked, which the guard unlocks
    });
    hold.unlock();
    f::this_fiber::reschedule();
    waiter.cancel();
    EXPECT_THROW(waiter.join(), f::cancelled);
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
}

TEST(SharedMutex, LetsReadersInTogether) {
    f::shared_mutex lock;
    std::shared_lock<f::shared_mutex> reading(lock);
    EXPECT_TRUE(f::spawn([&] { return std::shared_lock<f::shared_mutex>(lock, std::try_to_lock).owns_lock(); }).join());
    EXPECT_FALSE(
        f::spawn([&] { return std::unique_lock<f::shared_mutex>(lock, std::try_to_lock).owns_lock(); }).join());
    EXPECT_FALSE(f::spawn([&] { return lock.try_lock_for(1ms); }).join());
    reading.unlock();
    std::unique_lock<f::shared_mutex> writing(lock);
    EXPECT_FALSE(f::spawn([&] { return lock.try_lock_shared_for(1ms); }).join());
}

TEST(Semaphore, GivesPermits) {
    f::semaphore permits(1);
    permits.acquire();
    EXPECT_FALSE(permits.try_acquire());
    EXPECT_FALSE(permits.try_acquire_for(1ms));
    auto waiting = f::spawn([&] { permits.acquire(2); });
    f::this_fiber::reschedule();
    permits.release(2);
    waiting.join();
    EXPECT_EQ(code_of([] { f::semaphore negative(-1); }), EINVAL);
}

TEST(CallOnce, CallsAgainAfterAnException) {
    f::once_flag flag;
    int calls = 0;
    auto thrower = f::spawn([&] {
        f::call_once(flag, [&] {
            calls++;
            f::this_fiber::reschedule();
            throw std::out_of_range("not yet");
        });
    });
    auto second = f::spawn([&] { f::call_once(flag, [&] { calls++; }); });
    EXPECT_THROW(thrower.join(), std::out_of_range);
    second.join();
    f::call_once(flag, [&] { calls++; });
    EXPECT_EQ(calls, 2);
}

// ---- to capture by value --------------------------------------------------------------------------------------------

TEST(Event, LivesAsLongAsItsUsers) {
    f::fiber<> waiting;
    {
        f::event go;
        waiting = f::spawn([go] { go.wait(); });
        f::spawn_detached([go] { go.set(); });
    }
    waiting.join();
    f::event manual(FIBER_EVENT_MANUAL | FIBER_EVENT_SET);
    manual.wait();
    EXPECT_TRUE(manual.is_set());
    EXPECT_TRUE(manual.reset());
    EXPECT_FALSE(manual.wait_for(1ms));
    EXPECT_FALSE(manual.wait_until(f::clock::now()));
    EXPECT_EQ(code_of([] { f::event odd(1u << 30); }), EINVAL);
}

TEST(Barrier, ReportsTheLastToArriveAndWhetherItWasInTime) {
    f::barrier both(2);
    auto first = f::spawn([both] { return both.wait(); });
    f::this_fiber::reschedule();
    EXPECT_TRUE(both.wait());
    EXPECT_FALSE(first.join());
    EXPECT_FALSE(both.wait_for(1ms));
    EXPECT_FALSE(both.wait_until(std::chrono::steady_clock::now()));
    auto second = f::spawn([both] { return both.wait(); });
    f::this_fiber::reschedule();
    EXPECT_TRUE(both.wait_for(1s));
    EXPECT_FALSE(second.join());
    EXPECT_THROW(f::barrier(0), std::system_error);
}

TEST(WaitGroup, LivesAsLongAsItsUsers) {
    f::fiber<> waiting;
    {
        f::wait_group all(2);
        for (int i = 0; i < 2; i++) f::spawn_detached([all] { all.done(); });
        waiting = f::spawn([all] { all.wait(); });
    }
    waiting.join();
    f::wait_group one(1);
    EXPECT_FALSE(one.wait_for(1ms));
    one.add();
    EXPECT_FALSE(one.done());
    EXPECT_TRUE(one.done()); // the last one
    EXPECT_TRUE(one.wait_for(hang));
    EXPECT_EQ(code_of([&] { one.done(); }), EINVAL);
}

TEST(Channel, ReportsItsCapacityAndWhetherItIsClosed) {
    f::channel<int> three(3);
    EXPECT_EQ(three.capacity(), 3);
    EXPECT_FALSE(three.closed());
    three.close();
    EXPECT_TRUE(three.closed());
}

TEST(Channel, CarriesBytesAndObjects) {
    f::channel<int> numbers(2);
    auto sender = f::spawn([numbers] {
        for (int i = 0; i < 100; i++) numbers.send(i);
        numbers.close();
    });
    int next = 0;
    for (int number : numbers) EXPECT_EQ(number, next++);
    EXPECT_EQ(next, 100);
    EXPECT_EQ(numbers.recv(), std::nullopt);
    EXPECT_EQ(code_of([&] { numbers.send(1); }), EPIPE);
    sender.join();

    f::channel<std::unique_ptr<std::string>> letters;
    auto writer = f::spawn([letters] { letters.send(std::make_unique<std::string>("dear")); });
    EXPECT_EQ(**letters.recv(), "dear");
    writer.join();
    struct Large {
        std::array<char, FIBER_CHAN_ITEM_MAX + 1> bytes;
    };
    f::channel<Large> large(1);
    large.send(Large{{'x'}});
    EXPECT_EQ(large.recv()->bytes[0], 'x');
    struct Moved { // its bytes can be copied, but it cannot
        int number;
        explicit Moved(int n) : number(n) {}
        Moved(const Moved&) = delete;
        Moved(Moved&&) = default;
        Moved& operator=(const Moved&) = delete;
        Moved& operator=(Moved&&) = delete;
        ~Moved() = default;
    };
    f::channel<Moved> moved(1);
    moved.send(Moved(3));
    EXPECT_EQ(moved.recv()->number, 3);
}

TEST(Channel, LosesAndDoublesNothing) {
    int alive = 0;
    {
        f::channel<Token> tokens(3);
        for (int i = 0; i < 3; i++) tokens.send(Token(alive));
        EXPECT_EQ(tokens.count(), 3);
        EXPECT_EQ(alive, 3);
        EXPECT_FALSE(tokens.try_send(Token(alive)));
        EXPECT_FALSE(tokens.send_for(Token(alive), 1ms));
        EXPECT_EQ(alive, 3);
        auto cancelled = f::spawn([&] { tokens.send(Token(alive)); });
        f::this_fiber::reschedule();
        EXPECT_EQ(alive, 4);
        cancelled.cancel();
        EXPECT_THROW(cancelled.join(), f::cancelled);
        EXPECT_EQ(alive, 3);
        tokens.recv();
        EXPECT_EQ(alive, 2);
        EXPECT_TRUE(tokens.try_send(Token(alive)));
        EXPECT_TRUE(tokens.try_recv().has_value());
        tokens.close();
        tokens.close();
        EXPECT_EQ(code_of([&] { tokens.send(Token(alive)); }), EPIPE);
        EXPECT_EQ(code_of([&] { tokens.try_send(Token(alive)); }), EPIPE);
        EXPECT_EQ(alive, 2);
    }
    EXPECT_EQ(alive, 0); // the last two died with it
}

TEST(Channel, DistinguishesATimeoutFromTheEndOfTheItems) {
    f::channel<std::string> words(1);
    EXPECT_THROW(words.recv_for(1ms), f::timed_out);
    EXPECT_EQ(words.try_recv(), std::nullopt);
    words.close();
    EXPECT_EQ(words.recv_for(1ms), std::nullopt);
}

TEST(Select, PerformsOneCase) {
    f::channel<std::string> words;
    f::channel<std::string> answers(1);
    f::event stop;
    f::semaphore permits;
    std::optional<std::string> word;
    EXPECT_EQ(f::select(on_recv(words, word), on_event(stop), f::on_timer(1ms)), 2);
    stop.set();
    EXPECT_EQ(f::select(on_recv(words, word), on_event(stop), f::on_timer(hang)), 1);
    auto speaker = f::spawn([words] { words.send("spoken"); });
    EXPECT_EQ(f::select(on_recv(words, word), on_event(stop), f::on_timer(hang)), 0);
    EXPECT_EQ(word, "spoken");
    permits.release();
    EXPECT_EQ(f::select(on_event(stop), on_semaphore(permits)), 1);
    EXPECT_EQ(f::select(on_send(answers, "an answer"), on_event(stop)), 0);
    EXPECT_EQ(answers.recv(), "an answer");
    words.close();
    EXPECT_EQ(f::select(on_recv(words, word)), 0);
    EXPECT_EQ(word, std::nullopt);
    EXPECT_EQ(code_of([&] { f::select(on_send(words, "late")); }), EPIPE);
}

TEST(Select, DestroysItemsThatItDidNotSend) {
    int alive = 0;
    f::channel<Token> tokens;
    EXPECT_EQ(f::select(on_send(tokens, Token(alive)), f::on_timer(1ms)), 1);
    EXPECT_EQ(alive, 0);
}

TEST(FiberLocal, IsEachFibersOwnAndDestroyedWithIt) {
    static int alive = 0;
    struct Counted {
        int value = 0;
        Counted() { alive++; }
        ~Counted() { alive--; }
    };
    f::fiber_local<Counted> local;
    auto use = [&] {
        EXPECT_EQ(local->value, 0);
        local->value = 5;
        f::this_fiber::reschedule();
        EXPECT_EQ((*local).value, 5);
    };
    auto one = f::spawn(use), two = f::spawn(use);
    one.join();
    two.join();
    EXPECT_EQ(alive, 0);
}

// ---- input and output -----------------------------------------------------------------------------------------------

TEST(Descriptor, ReadsWritesAndClosesOnce) {
    if (!FIBERRT_TEST_IO) GTEST_SKIP() << "the library was built without I/O";
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    f::descriptor here(ends[0]), there(ends[1]);
    std::string text(100000, 'x');
    auto reader = f::spawn([&] {
        std::string all;
        std::array<char, 4096> some;
        while (std::size_t n = there.read(some.data(), some.size())) all.append(some.data(), n);
        return all;
    });
    here.write_all(text.data(), text.size());
    f::descriptor moved = std::move(here);
    EXPECT_FALSE(here); // NOLINT: the state after the move is under test
    moved.close();
    EXPECT_FALSE(moved);
    EXPECT_EQ(reader.join(), text);
    EXPECT_EQ(code_of([&] { moved.close(); }), EBADF);
    EXPECT_EQ(there.poll(POLLIN) & POLLIN, POLLIN);
    int fd = there.get();
    {
        f::noswitch section;
        there.reset(); // cannot wait, but closes it
    }
    EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}
