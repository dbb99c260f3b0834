// SPDX-License-Identifier: MIT OR Apache-2.0
// Mutexes: which waiter gets them when, misuse, early ends of waits, and holders that die; on one cord, on several, and
// on plain threads.
#include "conformance.h"
#include "cord_support.h"
#include "doomed.h"

#include <memory>
#include <thread>
#include <vector>

using namespace support;

namespace {

bool waits(fiber_t fiber) { return fiber_state(fiber) == FIBER_WAITING; }

TEST(Mutex, OfZeroBytesIsFreeAndExcludes) {
    fiber_mutex_t mutex{};
    int inside = 0, most = 0, total = 0;
    auto body = [&] {
        for (int i = 0; i < 10; i++) {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            most = std::max(most, ++inside);
            EXPECT_EQ(fiber_reschedule(), 0);
            total++;
            inside--;
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        }
    };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < 10; i++) fibers.push_back(spawn(body));
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(most, 1);
    EXPECT_EQ(total, 100);
    EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
}

TEST(Mutex, MisuseIsAnError) {
    fiber_mutex_t mutex{};
    EXPECT_EQ(fiber_mutex_lock(nullptr), -EINVAL);
    EXPECT_EQ(fiber_mutex_trylock(nullptr), -EINVAL);
    EXPECT_EQ(fiber_mutex_unlock(nullptr), -EINVAL);
    EXPECT_EQ(fiber_mutex_destroy(nullptr), -EINVAL);
    EXPECT_EQ(fiber_mutex_lock_timeout(&mutex, -1), -EINVAL);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), -EPERM);
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_lock(&mutex), -EDEADLK);
    EXPECT_EQ(fiber_mutex_lock_timeout(&mutex, 0), -EDEADLK);
    EXPECT_EQ(fiber_mutex_lock_timeout(&mutex, FIBER_SEC(1)), -EDEADLK);
    EXPECT_EQ(fiber_mutex_trylock(&mutex), -EBUSY);
    EXPECT_EQ(fiber_mutex_destroy(&mutex), -EBUSY);
    run([&] {
        EXPECT_EQ(fiber_mutex_unlock(&mutex), -EPERM);
        EXPECT_EQ(fiber_mutex_trylock(&mutex), -EBUSY);
        EXPECT_EQ(fiber_mutex_lock_timeout(&mutex, 0), -ETIMEDOUT);
    });
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), -EPERM);
    EXPECT_EQ(fiber_mutex_trylock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
}

TEST(Mutex, WaitersAreServedInOrder) {
    fiber_mutex_t mutex{};
    Trace trace;
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    std::vector<fiber_t> fibers;
    struct Waiter {
        fiber_mutex_t *mutex;
        Trace *trace;
        char name;
        void operator()() const {
            EXPECT_EQ(fiber_mutex_lock(mutex), 0);
            *trace += name;
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_mutex_unlock(mutex), 0);
        }
    };
    std::vector<Waiter> waiters;
    for (char name : {'a', 'b', 'c', 'd'}) waiters.push_back({&mutex, &trace, name});
    for (Waiter &waiter : waiters) fibers.push_back(start(waiter));
    EXPECT_EQ(fiber_mutex_destroy(&mutex), -EBUSY);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(trace, "abcd");
}

TEST(Mutex, ANewcomerMayOvertakeForAMillisecondAndNoLonger) {
    fiber_mutex_t mutex{};
    bool got = false;
    auto body = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        got = true;
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    const int64_t begun = fiber_now();
    const fiber_t waiter = start(body);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0); // which wakes it
    int overtaken = 0;
    int64_t last = begun; // the end of the last hold
    while (fiber_mutex_trylock(&mutex) == 0) {
        overtaken++;
        burn(FIBER_USEC(10));
        last = fiber_now();
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        if (fiber_now() - begun > FIBER_SEC(10)) break;
    }
    EXPECT_FALSE(got); // it has not run since
    EXPECT_GE(fiber_now() - begun, FIBER_MSEC(1));
    EXPECT_LT(last - begun, FIBER_SEC(10));
    (void)overtaken; // none if the machine was busy with others for a millisecond
    join(waiter);
    EXPECT_TRUE(got);
}

TEST(Mutex, IsGivenToAWaiterOfMoreThanAMillisecond) {
    fiber_mutex_t mutex{};
    auto body = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    const fiber_t waiter = start(body);
    burn(FIBER_MSEC(2));
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_trylock(&mutex), -EBUSY);
    join(waiter);
    EXPECT_EQ(fiber_mutex_trylock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
}

TEST(Mutex, ALoserOfTheCompetitionIsFirstAgain) {
    fiber_mutex_t mutex{};
    Trace trace;
    auto first = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        trace += 'a';
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    auto second = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        trace += 'b';
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    const fiber_t fibers[] = {start(first), start(second)};
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    const bool overtook = fiber_mutex_trylock(&mutex) == 0; // unless the machine took a millisecond
    EXPECT_EQ(fiber_reschedule(), 0);
    if (overtook) {
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    }
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(trace, "ab");
}

// --- Cancel and deadlines --------------------------------------------------------------------------------------------

TEST(MutexCancel, LockIsNoCancellationPoint) {
    fiber_mutex_t mutex{};
    auto body = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0); // cancelled during the wait
        EXPECT_EQ(fiber_cancelled(nullptr), 1);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);                                 // and before the call
        EXPECT_EQ(fiber_mutex_lock_timeout(&mutex, FIBER_FOREVER), -ECANCELED); // before anything else
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        EXPECT_EQ(fiber_sleep(0), -ECANCELED);
    };
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_TRUE(waits(fiber));
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    join(fiber);
}

TEST(MutexCancel, AScopesDeadlineDoesNotEndALock) {
    fiber_mutex_t mutex{};
    auto body = [&] {
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        EXPECT_EQ(fiber_sleep(0), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
    };
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    const fiber_t fiber = start(body);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(3)), 0);
    EXPECT_TRUE(waits(fiber));
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    join(fiber);
}

TEST(MutexCancel, EndsATimedLock) {
    fiber_mutex_t mutex{};
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    auto body = [&] { return pointer(fiber_mutex_lock_timeout(&mutex, FIBER_FOREVER)); };
    const fiber_t cancelled = start(body);
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    const fiber_t interrupted = start(body);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    EXPECT_EQ(join(interrupted), pointer(-EINTR));
    auto timed = [&] {
        const int64_t until = fiber_now() + FIBER_MSEC(2);
        EXPECT_EQ(fiber_mutex_lock_timeout(&mutex, FIBER_MSEC(2)), -ETIMEDOUT);
        EXPECT_GE(fiber_now(), until);
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(1), 0), 0);
        EXPECT_EQ(fiber_mutex_lock_timeout(&mutex, FIBER_FOREVER), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
    };
    run(timed);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_destroy(&mutex), 0); // they have left no trace
}

TEST(MutexCancel, TRAP_ACancelledWaiterIsUnlinkedAndTheOthersKeepTheirOrder) {
    fiber_mutex_t mutex{};
    Trace trace;
    struct Waiter {
        fiber_mutex_t *mutex;
        Trace *trace;
        char name;
        void operator()() const {
            const int result = fiber_mutex_lock_timeout(mutex, FIBER_FOREVER);
            *trace += result == 0 ? name : '-';
            if (result == 0) {
                EXPECT_EQ(fiber_mutex_unlock(mutex), 0);
            }
        }
    };
    for (int victim = 0; victim < 3; victim++) {
        Waiter waiters[] = {{&mutex, &trace, 'a'}, {&mutex, &trace, 'b'}, {&mutex, &trace, 'c'}};
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        fiber_t fibers[3];
        for (int i = 0; i < 3; i++) fibers[i] = start(waiters[i]);
        EXPECT_EQ(fiber_cancel(fibers[victim], nullptr), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        for (fiber_t fiber : fibers) join(fiber);
        trace += ' ';
    }
    EXPECT_EQ(trace, "-bc -ac -ab ");
}

TEST(MutexCancel, TRAP_AWaiterThatIsWokenAndCancelledHasTheLockOrPassesItOn) {
    for (bool overtaken : {false, true}) {
        fiber_mutex_t mutex{};
        int first_result = 1;
        bool second_got = false;
        auto first = [&] {
            first_result = fiber_mutex_lock_timeout(&mutex, FIBER_FOREVER);
            if (first_result == 0) {
                EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
            }
        };
        auto second = [&] {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            second_got = true;
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        };
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        const fiber_t fibers[] = {start(first), start(second)};
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        const bool overtook = overtaken && fiber_mutex_trylock(&mutex) == 0;
        EXPECT_EQ(fiber_cancel(fibers[0], nullptr), 0);
        join(fibers[0]);
        EXPECT_EQ(first_result, overtook ? -ECANCELED : 0); // a granted lock counts
        if (overtook) {
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        }
        join(fibers[1]);
        EXPECT_TRUE(second_got);
        EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
    }
}

TEST(MutexCancel, LockIsRefusedInANoSwitchSection) {
    fiber_mutex_t mutex{};
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_mutex_lock(&mutex), -EPERM);
    EXPECT_EQ(fiber_mutex_lock_timeout(&mutex, 0), -EPERM);
    EXPECT_EQ(fiber_mutex_trylock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
}

// --- Holders that die ------------------------------------------------------------------------------------------------

TEST(MutexDeath, TheNextLockGetsOwnerDeadOnceAndHolds) {
    fiber_mutex_t mutex{};
    run([&] { EXPECT_EQ(fiber_mutex_lock(&mutex), 0); });
    EXPECT_EQ(fiber_mutex_lock(&mutex), -EOWNERDEAD);
    EXPECT_EQ(fiber_mutex_lock(&mutex), -EDEADLK);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    run([&] { EXPECT_EQ(fiber_mutex_trylock(&mutex), 0); });
    EXPECT_EQ(fiber_mutex_trylock(&mutex), -EOWNERDEAD);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
}

TEST(MutexDeath, EarlierWaitersGetTheLockInOrder) {
    fiber_mutex_t mutex{};
    Trace trace;
    auto dies = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_yield(), 0);
        fiber_exit(nullptr);
    };
    struct Waiter {
        fiber_mutex_t *mutex;
        Trace *trace;
        char name;
        void operator()() const {
            const int result = fiber_mutex_lock(mutex);
            *trace += name;
            *trace += result == -EOWNERDEAD ? 'd' : result == 0 ? '0' : '?';
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_mutex_unlock(mutex), 0);
        }
    };
    const fiber_t holder = start(dies);
    Waiter waiters[] = {{&mutex, &trace, 'a'}, {&mutex, &trace, 'b'}};
    const fiber_t fibers[] = {start(waiters[0]), start(waiters[1])};
    EXPECT_EQ(fiber_wakeup(holder), 0);
    join(holder);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(trace, "adbd");
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
}

TEST(MutexDeath, OfAFiberThatHoldsSeveral) {
    fiber_mutex_t mutexes[5] = {};
    run([&] {
        for (fiber_mutex_t &mutex : mutexes) EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutexes[0]), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutexes[3]), 0);
    });
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(fiber_mutex_lock(&mutexes[i]), i == 0 || i == 3 ? 0 : -EOWNERDEAD);
        EXPECT_EQ(fiber_mutex_unlock(&mutexes[i]), 0);
    }
}

TEST(MutexDeath, OfAFiberWhoseKeysDestructorLocked) {
    static fiber_mutex_t mutex; // a destructor is a plain function
    mutex = {};
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create(&key, [](void *) { EXPECT_EQ(fiber_mutex_lock(&mutex), 0); }), 0);
    run([&] { EXPECT_EQ(fiber_key_set(key, pointer(1)), 0); });
    EXPECT_EQ(fiber_mutex_trylock(&mutex), -EOWNERDEAD);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

// The holder's sleep ends and the waiter's time is over at the same poll. The holder ends first, and has no waiter left
// to notify; the waiter finds the lock free when it checks a last time.
TEST(MutexDeath, AWaiterWhoseTimeIsOverGetsOwnerDeadAtItsLastTry) {
    fiber_mutex_t mutex{};
    auto holder = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_sleep(1), 0);
    };
    int result = 1;
    auto waiter = [&] {
        result = fiber_mutex_lock_timeout(&mutex, 1);
        if (result == -ETIMEDOUT) return;
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    const fiber_t first = start(holder), second = start(waiter);
    join(first);
    join(second);
    if (support::simulated() && result == -ETIMEDOUT)
        return; // there both times may be the same, and the waiter be first
    EXPECT_EQ(result, -EOWNERDEAD);
}

TEST(MutexDeath, OfAThreadWithACordWithFibersThatHold) {
    NEEDS_THREADS();
    fiber_mutex_t mains{}, fibers{};
    in_thread([&] {
        auto body = [&] {
            EXPECT_EQ(fiber_mutex_lock(&fibers), 0);
            fiber_yield();
        };
        start(body);
        EXPECT_EQ(fiber_mutex_lock(&mains), 0);
    });
    EXPECT_EQ(fiber_mutex_lock(&mains), -EOWNERDEAD);
    EXPECT_EQ(fiber_mutex_lock(&fibers), -EOWNERDEAD);
    EXPECT_EQ(fiber_mutex_unlock(&mains), 0);
    EXPECT_EQ(fiber_mutex_unlock(&fibers), 0);
}

TEST(MutexDeath, OfAThreadWithoutACord) {
    NEEDS_THREADS();
    fiber_mutex_t mutexes[3] = {};
    in_thread([&] {
        for (fiber_mutex_t &mutex : mutexes) EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutexes[1]), 0);
    });
    // Not for ever: in a sweep of refusals the thread may lack the record that reports its death.
    ASSERT_EQ(fiber_mutex_lock_timeout(&mutexes[0], FIBER_SEC(10)), -EOWNERDEAD);
    EXPECT_EQ(fiber_mutex_lock(&mutexes[1]), 0);
    EXPECT_EQ(fiber_mutex_lock(&mutexes[2]), -EOWNERDEAD);
    for (fiber_mutex_t &mutex : mutexes) EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
}

TEST(MutexDeath, AWaiterOnAnotherCordGetsOwnerDead) {
    fiber_mutex_t mutex{};
    std::atomic<bool> held{false};
    std::atomic<bool> end{false};
    auto dies = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        held = true;
        await_holding_the_thread([&] { return end.load(); });
    };
    Thread thread(dies);
    await([&] { return is_set(held); });
    auto body = [&] { return pointer(fiber_mutex_lock_timeout(&mutex, FIBER_SEC(10))); };
    const fiber_t waiter = start(body);
    EXPECT_TRUE(waits(waiter));
    end = true;
    ASSERT_EQ(join(waiter), pointer(-EOWNERDEAD)); // or, in a sweep of refusals, the thread lacked the record that
                                                   // reports it
    thread.join();
    EXPECT_EQ(fiber_mutex_lock(&mutex), -EOWNERDEAD); // as the waiter has ended with it
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
}

// A cord's main flow returns and holds a mutex, for which a fiber waits, for which the cord waits.
TEST(MutexDeath, TRAP_OfAMainFlowWhoseCordGoesOn) {
    fiber_mutex_t mutex{};
    int result = 0;
    auto wants_it = [&] {
        result = fiber_mutex_lock(&mutex);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    auto body = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        start(wants_it);
    };
    fiber_cord_t cord = start_cord(body);
    expect_joined(fiber_cord_join_timeout(cord, nullptr, FIBER_SEC(100)));
    EXPECT_EQ(result, -EOWNERDEAD);
}

TEST(MutexDeath, TRAP_ALockGivenToAFiberThatNeverRunsAgainPassesOn) {
    for (int64_t hold : {FIBER_USEC(0), FIBER_MSEC(2)}) { // it is woken to compete; it is given the lock
        fiber_mutex_t mutex{};
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        Doomed doomed([&] { return fiber_mutex_lock(&mutex); });
        auto other = [&] { return pointer(fiber_mutex_lock(&mutex)); };
        const fiber_t next = start(other);
        burn(hold);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        doomed.end();
        EXPECT_EQ(join(next), pointer(0)); // no holder has died with it
        EXPECT_EQ(fiber_mutex_lock(&mutex), -EOWNERDEAD);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
    }
}

// A holder dies while a woken waiter competes, and the woken waiter's thread ends before it runs. A caller that waits
// only afterwards, and is given the lock, learns of no death.
TEST(MutexDeath, TRAP_ADeathBeforeTheWaitIsNotReportedWithAGivenLock) {
    fiber_mutex_t mutex{};
    auto dies = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_yield(), 0);
    };
    const fiber_t holder = start(dies);
    Doomed doomed([&] { return fiber_mutex_lock(&mutex); });
    EXPECT_EQ(fiber_wakeup(holder), 0);
    join(holder); // its death wakes the doomed fiber, which does not run
    run([&] { EXPECT_EQ(fiber_mutex_lock(&mutex), -EOWNERDEAD); });
    EXPECT_EQ(fiber_mutex_lock(&mutex), -EOWNERDEAD);
    doomed.end();
    auto locks = [&] {
        const int result = fiber_mutex_lock(&mutex);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        return pointer(result);
    };
    const fiber_t later = start(locks);
    EXPECT_TRUE(waits(later));
    burn(FIBER_MSEC(2)); // now unlock gives the lock to the waiter
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_trylock(&mutex), -EBUSY);
    EXPECT_EQ(join(later), pointer(0));
    EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
}

// --- Threads ---------------------------------------------------------------------------------------------------------

TEST(MutexThreads, CordsAndPlainThreadsExcludeEachOther) {
    fiber_mutex_t mutex{};
    long total = 0; // under the mutex
    const long turns = often(2000, 20);
    auto body = [&] {
        for (long i = 0; i < turns; i++) {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            total++;
            if (i % 64 == 0 && fiber_reschedule() != 0) ADD_FAILURE();
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        }
    };
    auto plain = [&] {
        for (long i = 0; i < turns; i++) {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            total++;
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        }
    };
    {
        Worker workers[2];
        std::vector<fiber_t> fibers;
        for (Worker &worker : workers)
            for (int i = 0; i < 3; i++) fibers.push_back(spawn_on(worker, body));
        Thread threads[] = {Thread(plain), Thread(plain)};
        for (fiber_t fiber : fibers) join(fiber);
        for (Thread &thread : threads) thread.join();
    }
    EXPECT_EQ(total, 8 * turns);
    EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
}

TEST(MutexThreads, APlainThreadWaitsAndTimesOut) {
    NEEDS_THREADS();
    fiber_mutex_t mutex{};
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    in_thread([&] {
        const int64_t until = fiber_now() + FIBER_MSEC(3);
        EXPECT_EQ(fiber_mutex_lock_timeout(&mutex, FIBER_MSEC(3)), -ETIMEDOUT);
        EXPECT_GE(fiber_now(), until);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), -EPERM);
    });
    std::atomic<bool> got{false};
    std::thread thread([&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        got = true;
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    });
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
    EXPECT_FALSE(got);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    await([&] { return got.load(); });
    thread.join();
}

// A time that ends beyond all clocks is for ever: such a wait never ends with a timeout.
TEST(MutexThreads, APlainThreadWaitsForTheLongestTime) {
    NEEDS_THREADS();
    for (int64_t time : {FIBER_FOREVER - 1, FIBER_FOREVER / 2}) {
        fiber_sem_t sem{};
        std::atomic<bool> back{false};
        int result = 1;
        std::thread thread([&] {
            result = fiber_sem_wait_timeout(&sem, 1, time);
            back = true;
        });
        await([&] { return back.load() || fiber_sem_destroy(&sem) == -EBUSY; });
        EXPECT_FALSE(back);
        EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
        thread.join();
        EXPECT_EQ(result, 0);
    }
}

TEST(MutexThreads, AThreadThatGetsACordMeanwhileIsTheSameHolder) {
    NEEDS_THREADS();
    fiber_mutex_t before{}, after{};
    in_thread([&] {
        EXPECT_EQ(fiber_mutex_lock(&before), 0);
        EXPECT_EQ(fiber_sleep(0), 0); // which opens the cord
        EXPECT_EQ(fiber_mutex_lock(&before), -EDEADLK);
        EXPECT_EQ(fiber_mutex_lock(&after), 0);
        EXPECT_EQ(fiber_mutex_unlock(&before), 0);
        EXPECT_EQ(fiber_mutex_unlock(&after), 0);
    });
    EXPECT_EQ(fiber_mutex_destroy(&before), 0);
    EXPECT_EQ(fiber_mutex_destroy(&after), 0);
}

TEST(MutexThreads, TRAP_UnlockTouchesNothingAfterTheRelease) {
    struct Shared {
        fiber_mutex_t mutex{};
        bool last = false;
    };
    for (int i = 0; i < often(500, 10); i++) {
        auto *shared = new Shared;
        auto leave = [&] { // the second to come frees it
            EXPECT_EQ(fiber_mutex_lock(&shared->mutex), 0);
            const bool last = shared->last;
            shared->last = true;
            EXPECT_EQ(fiber_mutex_unlock(&shared->mutex), 0);
            if (!last) return;
            memset(&shared->mutex, 0xff, sizeof shared->mutex);
            delete shared;
        };
        Thread thread(leave);
        leave();
        thread.join();
    }
}

// As before, but a waiter gives up as the holder unlocks, and so no fiber waits any more. The times meet sooner or
// later.
TEST(MutexThreads, TRAP_UnlockTouchesNothingAfterTheReleaseThoughAWaiterGaveUp) {
    NEEDS_THREADS();
    for (int i = 0; i < often(300, 0); i++) {
        auto *mutex = new fiber_mutex_t{};
        ASSERT_EQ(fiber_mutex_lock(mutex), 0);
        std::atomic<int64_t> begun{0};
        const int64_t patience = FIBER_USEC(20 + i % 20);
        std::thread thread([&] {
            begun = fiber_now();
            if (fiber_mutex_lock_timeout(mutex, patience) != 0) {
                EXPECT_EQ(fiber_mutex_lock(mutex), 0);
            }
            EXPECT_EQ(fiber_mutex_unlock(mutex), 0);
            memset(mutex, 0xff, sizeof *mutex);
            delete mutex;
        });
        await_holding_the_thread([&] { return begun != 0; });
        const int64_t end = begun + patience + FIBER_USEC(i % 80);
        while (fiber_now() < end) {}
        EXPECT_EQ(fiber_mutex_unlock(mutex), 0);
        thread.join();
    }
}

// The woken fiber has not run yet; a waiter whose time runs out meanwhile gets the lock if it is free.
TEST(MutexThreads, NoWaiterTimesOutAtAFreeLock) {
    fiber_mutex_t mutex{};
    std::atomic<bool> waits_there{false}, done{false};
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    auto there = [&] {
        auto lock = [&] {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        };
        const fiber_t waiter = start(lock);
        EXPECT_TRUE(waits(waiter));
        waits_there = true;
        await_holding_the_thread([&] { return done.load(); });
        join(waiter);
    };
    fiber_cord_t cord = start_cord(there);
    await([&] { return is_set(waits_there); });
    auto lock = [&] {
        const int result = fiber_mutex_lock_timeout(&mutex, FIBER_MSEC(5));
        if (result == -ETIMEDOUT) { // the first one had waited for so long that it was given the lock
            EXPECT_EQ(fiber_mutex_trylock(&mutex), -EBUSY);
        } else {
            EXPECT_EQ(result, 0);
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        }
    };
    const fiber_t waiter = start(lock);
    EXPECT_TRUE(waits(waiter));
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0); // the first waiter is woken
    join(waiter);
    done = true;
    join_cord(cord);
}

TEST(MutexThreads, TRAP_HandOverToAFiberWhoseThreadIsAboutToLockTheSameMutex) {
    fiber_mutex_t mutex{};
    Worker worker;
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    auto body = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    const fiber_t first = spawn_on(worker, body);
    const fiber_t second = spawn_on(worker, body);
    await([&] { return waits(first) && waits(second); });
    burn(FIBER_MSEC(2)); // so that the lock is given
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0); // this thread too
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    join(first);
    join(second);
}

} // namespace
