// SPDX-License-Identifier: MIT OR Apache-2.0
// Condition variables: signals that are neither lost nor doubled, early ends, and the mutex that is held at the end.
#include "conformance.h"
#include "cord_support.h"
#include "doomed.h"

#include <deque>
#include <thread>
#include <vector>

using namespace support;

namespace {

bool waits(fiber_t fiber) { return fiber_state(fiber) == FIBER_WAITING; }

// A condition with its mutex, and a fiber's wait that writes its name, or its error, into a trace.
struct Place {
    fiber_mutex_t mutex{};
    fiber_cond_t cond{};
    Trace trace;

    int wait(int64_t timeout_ns = FIBER_FOREVER) {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        const int result = fiber_cond_wait_timeout(&cond, &mutex, timeout_ns);
        EXPECT_EQ(fiber_mutex_lock(&mutex), -EDEADLK); // it is held, whatever the result
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        return result;
    }
};

struct Named {
    Place *place;
    char name;
    void operator()() const {
        const int result = place->wait();
        place->trace += result == 0 ? name : '-';
    }
};

TEST(Cond, TRAP_TwoSignalsBeforeTheFirstWaiterRunsWakeTwo) {
    Place place;
    Named named[] = {{&place, 'a'}, {&place, 'b'}, {&place, 'c'}};
    const fiber_t fibers[] = {start(named[0]), start(named[1]), start(named[2])};
    EXPECT_EQ(fiber_cond_destroy(&place.cond), -EBUSY);
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    join(fibers[0]);
    join(fibers[1]);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_TRUE(waits(fibers[2]));
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    join(fibers[2]);
    EXPECT_EQ(place.trace, "abc");
    EXPECT_EQ(fiber_cond_destroy(&place.cond), 0);
    EXPECT_EQ(fiber_mutex_destroy(&place.mutex), 0);
}

TEST(Cond, BroadcastWakesAllWaitersAndNoLaterOne) {
    Place place;
    Named named[] = {{&place, 'a'}, {&place, 'b'}, {&place, 'c'}, {&place, 'd'}};
    fiber_t fibers[4];
    for (int i = 0; i < 3; i++) fibers[i] = start(named[i]);
    EXPECT_EQ(fiber_cond_broadcast(&place.cond), 0);
    fibers[3] = start(named[3]);
    for (int i = 0; i < 3; i++) join(fibers[i]);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_TRUE(waits(fibers[3]));
    EXPECT_EQ(fiber_cond_broadcast(&place.cond), 0);
    join(fibers[3]);
    EXPECT_EQ(place.trace, "abcd");
}

TEST(Cond, SignalsWithoutAWaiterAreNotKept) {
    Place place;
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    EXPECT_EQ(fiber_cond_broadcast(&place.cond), 0);
    run([&] { EXPECT_EQ(place.wait(FIBER_MSEC(1)), -ETIMEDOUT); });
}

TEST(Cond, MisuseIsAnError) {
    Place place;
    EXPECT_EQ(fiber_cond_wait(nullptr, &place.mutex), -EINVAL);
    EXPECT_EQ(fiber_cond_wait(&place.cond, nullptr), -EINVAL);
    EXPECT_EQ(fiber_cond_wait_timeout(&place.cond, &place.mutex, -1), -EINVAL);
    EXPECT_EQ(fiber_cond_wait(&place.cond, &place.mutex), -EPERM); // it is not held
    EXPECT_EQ(fiber_mutex_lock(&place.mutex), 0);
    run([&] { EXPECT_EQ(fiber_cond_wait(&place.cond, &place.mutex), -EPERM); });
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_cond_wait(&place.cond, &place.mutex), -EPERM);
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_cond_wait_timeout(&place.cond, &place.mutex, 0), -ETIMEDOUT);
    EXPECT_EQ(fiber_mutex_unlock(&place.mutex), 0);
    EXPECT_EQ(fiber_cond_signal(nullptr), -EINVAL);
    EXPECT_EQ(fiber_cond_broadcast(nullptr), -EINVAL);
    EXPECT_EQ(fiber_cond_destroy(nullptr), -EINVAL);
}

TEST(CondCancel, EveryEarlyEndHoldsTheMutex) {
    Place place;
    auto body = [&] { return pointer(place.wait()); };
    const fiber_t cancelled = start(body);
    EXPECT_EQ(fiber_mutex_lock(&place.mutex), 0);
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_TRUE(waits(cancelled)); // for the mutex, which no cancel ends
    EXPECT_EQ(fiber_mutex_unlock(&place.mutex), 0);
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    const fiber_t interrupted = start(body);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    EXPECT_EQ(join(interrupted), pointer(-EINTR));
    run([&] {
        const int64_t until = fiber_now() + FIBER_MSEC(2);
        EXPECT_EQ(place.wait(FIBER_MSEC(2)), -ETIMEDOUT);
        EXPECT_GE(fiber_now(), until);
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
        EXPECT_EQ(place.wait(), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
    });
    EXPECT_EQ(fiber_cond_destroy(&place.cond), 0);
    EXPECT_EQ(fiber_mutex_destroy(&place.mutex), 0);
}

TEST(CondCancel, PendingAtTheCallLeavesEverythingAsItIs) {
    Place place;
    bool signalled = false;
    auto body = [&] {
        EXPECT_EQ(fiber_mutex_lock(&place.mutex), 0);
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_EQ(fiber_cond_wait(&place.cond, &place.mutex), -ECANCELED);
        EXPECT_EQ(fiber_mutex_trylock(&place.mutex), -EBUSY);
        EXPECT_EQ(fiber_mutex_unlock(&place.mutex), 0);
        signalled = true;
    };
    run(body);
    EXPECT_TRUE(signalled);
}

TEST(CondCancel, TRAP_ASignalledThenCancelledWaiterTakesOrPassesTheSignal) {
    Place place;
    Named named[] = {{&place, 'a'}, {&place, 'b'}};
    const fiber_t fibers[] = {start(named[0]), start(named[1])};
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    EXPECT_EQ(fiber_cancel(fibers[0], nullptr), 0); // it has the signal already, and takes it
    join(fibers[0]);
    EXPECT_TRUE(waits(fibers[1]));
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    join(fibers[1]);
    Named more[] = {{&place, 'c'}, {&place, 'd'}};
    const fiber_t others[] = {start(more[0]), start(more[1])};
    EXPECT_EQ(fiber_cancel(others[0], nullptr), 0);
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0); // for the other one
    join(others[1]);
    join(others[0]);
    EXPECT_EQ(std::count(place.trace.begin(), place.trace.end(), '-'), 1);
    EXPECT_NE(place.trace.find('d'), std::string::npos);
}

TEST(CondCancel, TRAP_ASignalThatCameInTimeIsASuccessHoweverLateTheMutexIs) {
    Place place;
    auto body = [&] { return pointer(place.wait(FIBER_MSEC(100))); };
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_mutex_lock(&place.mutex), 0);
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(120)), 0);
    EXPECT_EQ(fiber_mutex_unlock(&place.mutex), 0);
    EXPECT_EQ(join(fiber), pointer(0));
}

TEST(CondDeath, AHolderThatDiesMeanwhileIsReported) {
    Place place;
    auto body = [&] {
        EXPECT_EQ(fiber_mutex_lock(&place.mutex), 0);
        const int result = fiber_cond_wait(&place.cond, &place.mutex);
        EXPECT_EQ(fiber_mutex_unlock(&place.mutex), 0);
        return pointer(result);
    };
    const fiber_t fiber = start(body);
    run([&] {
        EXPECT_EQ(fiber_mutex_lock(&place.mutex), 0);
        EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    });
    EXPECT_EQ(join(fiber), pointer(-EOWNERDEAD));
}

TEST(CondDeath, TRAP_ASignalGivenToAFiberThatNeverRunsAgainPassesOn) {
    Place place;
    Doomed doomed([&] { place.wait(); });
    auto body = [&] { return pointer(place.wait()); };
    const fiber_t next = start(body);
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    doomed.end();
    EXPECT_EQ(join(next), pointer(0));
}

// The signalled fiber waits for the mutex when its thread ends.
TEST(CondDeath, TRAP_ASignalPassesOnAlsoFromAWaitForTheMutex) {
    Place place;
    std::atomic<bool> waits_there{false}, signalled{false};
    auto wait = [&] { place.wait(); };
    auto there = [&] {
        const fiber_t waiter = create(wait, On(this_cord_handle()).daemon());
        EXPECT_EQ(fiber_start(waiter), 0);
        EXPECT_TRUE(waits(waiter));
        waits_there = true;
        await([&] { return is_set(signalled); });
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0); // it hears of that, and goes for the mutex
    };
    fiber_cord_t cord = start_cord(there);
    await([&] { return is_set(waits_there); });
    auto body = [&] { return pointer(place.wait()); };
    const fiber_t next = start(body);
    EXPECT_EQ(fiber_mutex_lock(&place.mutex), 0);
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    signalled = true;
    join_cord(cord);
    EXPECT_EQ(fiber_mutex_unlock(&place.mutex), 0);
    EXPECT_EQ(join(next), pointer(0));
}

TEST(CondDeath, ABroadcastLeavesNothingToPassOn) {
    Place place;
    Doomed doomed([&] { place.wait(); });
    EXPECT_EQ(fiber_cond_broadcast(&place.cond), 0);
    auto body = [&] { return pointer(place.wait()); };
    const fiber_t later = start(body);
    doomed.end();
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_TRUE(waits(later));
    EXPECT_EQ(fiber_cond_signal(&place.cond), 0);
    EXPECT_EQ(join(later), pointer(0));
}

TEST(CondThreads, AQueueBetweenCordsAndPlainThreadsLosesNothing) {
    fiber_mutex_t mutex{};
    fiber_cond_t cond{};
    std::deque<int> queue;
    long received = 0;
    const int each = often(1000, 10), producers = 4;
    auto produce = [&] {
        for (int i = 1; i <= each; i++) {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            queue.push_back(i);
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
            EXPECT_EQ(fiber_cond_signal(&cond), 0);
        }
    };
    auto consume = [&] {
        for (;;) {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            while (queue.empty()) EXPECT_EQ(fiber_cond_wait(&cond, &mutex), 0);
            const int item = queue.front();
            queue.pop_front();
            received += item;
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
            if (!item) return;
        }
    };
    {
        Worker workers[2];
        const fiber_t consumers[] = {spawn_on(workers[0], consume), spawn_on(workers[1], consume)};
        Thread plain(consume);
        const fiber_t fibers[] = {spawn_on(workers[0], produce), spawn_on(workers[1], produce)};
        Thread threads[] = {Thread(produce), Thread(produce)};
        for (fiber_t fiber : fibers) join(fiber);
        for (Thread &thread : threads) thread.join();
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        for (int i = 0; i < 3; i++) queue.push_back(0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        EXPECT_EQ(fiber_cond_broadcast(&cond), 0);
        for (fiber_t fiber : consumers) join(fiber);
        plain.join();
    }
    EXPECT_EQ(received, long(producers) * each * (each + 1) / 2);
}

} // namespace
