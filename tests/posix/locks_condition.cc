// SPDX-License-Identifier: MIT OR Apache-2.0
// Condition variables of adopted libraries, in C and C++.
#include "locks.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <threads.h>

using namespace locks;

namespace {

struct Condition {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    int value = 0;

    // Waits until the value is not 0, and takes one from it.
    void take() {
        EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
        while (!value) EXPECT_EQ(pthread_cond_wait(&cond, &mutex), 0);
        value--;
        EXPECT_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    void put(int more) {
        EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
        value += more;
        EXPECT_EQ(pthread_mutex_unlock(&mutex), 0);
    }
};

TEST(Cond, ASignalOfAFiberWakesAFiber) {
    Condition condition;
    auto body = [&] { condition.take(); };
    fiber_t fibers[3];
    for (fiber_t &fiber : fibers) until_waiting(fiber = start(body));
    for (int i = 0; i < 3; i++) {
        condition.put(1);
        EXPECT_EQ(pthread_cond_signal(&condition.cond), 0);
    }
    for (fiber_t fiber : fibers) join(fiber);
}

TEST(Cond, ABroadcastWakesFibersAndThreads) {
    Condition condition;
    auto body = [&] { condition.take(); };
    fiber_t fibers[10];
    for (fiber_t &fiber : fibers) until_waiting(fiber = start(body));
    std::thread threads[3];
    for (std::thread &thread : threads) thread = std::thread(body);
    std::thread waker([&] {
        condition.put(13);
        EXPECT_EQ(pthread_cond_broadcast(&condition.cond), 0);
    });
    for (fiber_t fiber : fibers) join(fiber);
    for (std::thread &thread : threads) thread.join();
    waker.join();
    EXPECT_EQ(condition.value, 0);
}

// Two kinds of waiters are signalled: a signal wakes at least one of those that can take the value.
TEST(Cond, ProducersAndConsumersAreFibersAndThreads) {
    constexpr int each = 300;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t has_items = PTHREAD_COND_INITIALIZER, has_room = PTHREAD_COND_INITIALIZER;
    std::deque<int> items;
    std::atomic<int> sum = 0;
    auto produce = [&] {
        for (int i = 1; i <= each; i++) {
            EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
            while (items.size() == 4) EXPECT_EQ(pthread_cond_wait(&has_room, &mutex), 0);
            items.push_back(i);
            EXPECT_EQ(pthread_mutex_unlock(&mutex), 0);
            EXPECT_EQ(pthread_cond_signal(&has_items), 0);
        }
    };
    auto consume = [&] {
        for (int i = 1; i <= each; i++) {
            EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
            while (items.empty()) EXPECT_EQ(pthread_cond_wait(&has_items, &mutex), 0);
            sum += items.front();
            items.pop_front();
            EXPECT_EQ(pthread_cond_signal(&has_room), 0);
            EXPECT_EQ(pthread_mutex_unlock(&mutex), 0);
        }
    };
    std::thread producer(produce), consumer(consume), fibers_elsewhere([&] {
        fiber_t one = spawn(produce), other = spawn(consume);
        join(one);
        join(other);
    });
    fiber_t fibers[] = {spawn(consume), spawn(produce), spawn(consume), spawn(produce)};
    for (fiber_t fiber : fibers) join(fiber);
    producer.join();
    consumer.join();
    fibers_elsewhere.join();
    EXPECT_EQ(sum, 4 * each * (each + 1) / 2);
    EXPECT_TRUE(items.empty());
}

TEST(Cond, ASignalByCodeThatIsNotAdoptedIsNoticed) {
    Condition condition;
    auto body = [&] { condition.take(); };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    std::thread([&] {
        EXPECT_EQ(NOT_ADOPTED(pthread_mutex_lock)(&condition.mutex), 0);
        condition.value = 1;
        EXPECT_EQ(NOT_ADOPTED(pthread_mutex_unlock)(&condition.mutex), 0);
        EXPECT_EQ(NOT_ADOPTED(pthread_cond_signal)(&condition.cond), 0);
    }).join();
    join(fiber);
}

TEST(Cond, AnswersAFiberAsAThread) {
    for (const MutexKind &kind : mutex_kinds) {
        if (kind.protocol) continue; // glibc 2.36 requeues none
        Mutex mutex(kind);
        for (clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC}) {
            pthread_condattr_t attr;
            pthread_condattr_init(&attr);
            ASSERT_EQ(pthread_condattr_setclock(&attr, clock), 0);
            pthread_cond_t cond;
            ASSERT_EQ(pthread_cond_init(&cond, &attr), 0);
            pthread_condattr_destroy(&attr);
            auto script = [&] {
                std::vector<int> results;
                auto say = [&](int result) { results.push_back(result); };
                // A wait may end without a signal.
                auto last = [&](auto wait) {
                    int result;
                    while (!(result = wait())) {}
                    return result;
                };
                timespec past = absolute(clock, -soon), near = absolute(clock, soon), invalid = {0, 1'000'000'000};
                timespec near_monotonic = absolute(CLOCK_MONOTONIC, soon);
                say(pthread_mutex_lock(mutex));
                say(last([&] { return pthread_cond_timedwait(&cond, mutex, &past); }));
                say(last([&] { return pthread_cond_timedwait(&cond, mutex, &near); }));
                say(last([&] { return pthread_cond_clockwait(&cond, mutex, CLOCK_MONOTONIC, &near_monotonic); }));
                say(pthread_cond_timedwait(&cond, mutex, &invalid));
                say(pthread_cond_clockwait(&cond, mutex, CLOCK_PROCESS_CPUTIME_ID, &near));
                say(pthread_mutex_unlock(mutex));
                if (kind.owned()) { // without the mutex
                    say(pthread_cond_timedwait(&cond, mutex, &near));
                    say(pthread_mutex_unlock(mutex));
                }
                say(pthread_cond_signal(&cond));
                say(pthread_cond_broadcast(&cond));
                return results;
            };
            expect_as_in_a_thread(script);
            EXPECT_EQ(pthread_cond_destroy(&cond), 0);
        }
    }
}

TEST(Cond, ARecursiveMutexIsReleasedToOtherFibers) {
    Mutex mutex({"recursive", PTHREAD_MUTEX_RECURSIVE});
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    bool set = false;
    auto body = [&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        while (!set) EXPECT_EQ(pthread_cond_wait(&cond, mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), EPERM);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    EXPECT_EQ(pthread_mutex_lock(mutex), 0);
    set = true;
    EXPECT_EQ(pthread_cond_signal(&cond), 0);
    EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    join(fiber);
}

TEST(Cond, NoCancelInterruptOrDeadlineEndsTheWait) {
    Condition condition;
    bool taken = false;
    auto body = [&] {
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, 0, 0), 0);
        condition.take();
        taken = true;
        EXPECT_EQ(fiber_sleep(0), -ECANCELED);
        fiber_scope_close(scope, nullptr);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    for (int i = 0; i < 20; i++) ASSERT_EQ(fiber_reschedule(), 0);
    EXPECT_FALSE(taken);
    condition.put(1);
    EXPECT_EQ(pthread_cond_signal(&condition.cond), 0);
    join(fiber);
    EXPECT_TRUE(taken);
}

// A thread that waits in the C library unlocks the mutex there.
TEST(Cond, AThreadThatWaitsHandsTheMutexToAFiber) {
    Condition condition;
    std::atomic<bool> held = false, go_on = false;
    std::thread thread([&] {
        EXPECT_EQ(pthread_mutex_lock(&condition.mutex), 0);
        held = true;
        until_set(go_on);
        while (!condition.value) EXPECT_EQ(pthread_cond_wait(&condition.cond, &condition.mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(&condition.mutex), 0);
    });
    until_set(held);
    auto body = [&] {
        condition.put(1);
        EXPECT_EQ(pthread_cond_signal(&condition.cond), 0);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    go_on = true;
    join(fiber);
    thread.join();
}

TEST(CxxCondition, WaitsAndNotifies) {
    std::mutex mutex;
    std::condition_variable condition;
    int value = 0;
    auto waits = [&] {
        std::unique_lock lock(mutex);
        condition.wait(lock, [&] { return value > 0; });
        value--;
    };
    auto waits_long = [&] {
        std::unique_lock lock(mutex);
        EXPECT_TRUE(condition.wait_for(lock, std::chrono::hours(1), [&] { return value > 0; }));
        value--;
    };
    auto gives_up = [&] {
        std::unique_lock lock(mutex);
        EXPECT_FALSE(condition.wait_for(lock, std::chrono::milliseconds(5), [&] { return value < 0; }));
    };
    fiber_t fibers[] = {start(waits), start(waits_long), start(gives_up)};
    join(fibers[2]);
    {
        std::lock_guard lock(mutex);
        value = 1;
    }
    condition.notify_one();
    std::thread([&] {
        std::lock_guard lock(mutex);
        value++;
        condition.notify_all();
    }).join();
    join(fibers[0]);
    join(fibers[1]);
}

TEST(ThreadsH, LocksAndConditionsOfC) {
    mtx_t mutex;
    cnd_t condition;
    ASSERT_EQ(mtx_init(&mutex, mtx_timed), thrd_success);
    ASSERT_EQ(cnd_init(&condition), thrd_success);
    bool set = false;
    auto body = [&] {
        EXPECT_EQ(mtx_lock(&mutex), thrd_success);
        timespec near = absolute(CLOCK_REALTIME, soon);
        int result;
        while ((result = cnd_timedwait(&condition, &mutex, &near)) == thrd_success) {}
        EXPECT_EQ(result, thrd_timedout);
        while (!set) EXPECT_EQ(cnd_wait(&condition, &mutex), thrd_success);
        EXPECT_EQ(mtx_unlock(&mutex), thrd_success);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    EXPECT_EQ(mtx_lock(&mutex), thrd_success);
    auto other = [&] {
        timespec near = absolute(CLOCK_REALTIME, soon);
        EXPECT_EQ(mtx_trylock(&mutex), thrd_busy);
        EXPECT_EQ(mtx_timedlock(&mutex, &near), thrd_timedout);
    };
    run(other);
    set = true;
    EXPECT_EQ(cnd_broadcast(&condition), thrd_success);
    EXPECT_EQ(cnd_signal(&condition), thrd_success);
    EXPECT_EQ(mtx_unlock(&mutex), thrd_success);
    join(fiber);
    cnd_destroy(&condition);
    mtx_destroy(&mutex);
}

} // namespace
