// SPDX-License-Identifier: MIT OR Apache-2.0
// Read-write locks, and once.
#include "conformance.h"
#include "cord_support.h"
#include "doomed.h"

#include <thread>
#include <vector>

using namespace support;

namespace {

bool waits(fiber_t fiber) { return fiber_state(fiber) == FIBER_WAITING; }

TEST(RwLock, ManyReadersOrOneWriter) {
    fiber_rwlock_t lock{};
    EXPECT_EQ(fiber_rwlock_rdlock(&lock), 0);
    run([&] {
        EXPECT_EQ(fiber_rwlock_tryrdlock(&lock), 0);
        EXPECT_EQ(fiber_rwlock_trywrlock(&lock), -EBUSY);
        EXPECT_EQ(fiber_rwlock_wrlock_timeout(&lock, 0), -ETIMEDOUT);
        EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
    });
    EXPECT_EQ(fiber_rwlock_destroy(&lock), -EBUSY);
    EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
    EXPECT_EQ(fiber_rwlock_wrlock(&lock), 0);
    run([&] {
        EXPECT_EQ(fiber_rwlock_tryrdlock(&lock), -EBUSY);
        EXPECT_EQ(fiber_rwlock_trywrlock(&lock), -EBUSY);
        EXPECT_EQ(fiber_rwlock_rdlock_timeout(&lock, FIBER_MSEC(1)), -ETIMEDOUT);
        EXPECT_EQ(fiber_rwlock_unlock(&lock), -EPERM);
    });
    EXPECT_EQ(fiber_rwlock_destroy(&lock), -EBUSY);
    EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
    EXPECT_EQ(fiber_rwlock_destroy(&lock), 0);
}

TEST(RwLock, MisuseIsAnError) {
    fiber_rwlock_t lock{};
    EXPECT_EQ(fiber_rwlock_rdlock(nullptr), -EINVAL);
    EXPECT_EQ(fiber_rwlock_wrlock(nullptr), -EINVAL);
    EXPECT_EQ(fiber_rwlock_tryrdlock(nullptr), -EINVAL);
    EXPECT_EQ(fiber_rwlock_trywrlock(nullptr), -EINVAL);
    EXPECT_EQ(fiber_rwlock_unlock(nullptr), -EINVAL);
    EXPECT_EQ(fiber_rwlock_destroy(nullptr), -EINVAL);
    EXPECT_EQ(fiber_rwlock_rdlock_timeout(&lock, -1), -EINVAL);
    EXPECT_EQ(fiber_rwlock_unlock(&lock), -EPERM);
    EXPECT_EQ(fiber_rwlock_wrlock(&lock), 0);
    EXPECT_EQ(fiber_rwlock_wrlock(&lock), -EDEADLK);
    EXPECT_EQ(fiber_rwlock_rdlock(&lock), -EDEADLK);
    EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_rwlock_rdlock(&lock), -EPERM);
    EXPECT_EQ(fiber_rwlock_tryrdlock(&lock), 0);
    EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
}

struct Locker {
    fiber_rwlock_t *lock;
    Trace *trace;
    char name; // a capital letter writes
    void operator()() const {
        const int result = name < 'a' ? fiber_rwlock_wrlock(lock) : fiber_rwlock_rdlock(lock);
        *trace += result == 0 ? name : '-';
        if (result != 0) return;
        EXPECT_EQ(fiber_reschedule(), 0);
        *trace += '.';
        EXPECT_EQ(fiber_rwlock_unlock(lock), 0);
    }
};

TEST(RwLock, IsNotTheNextFibersOfTheSameSlot) {
    fiber_rwlock_t lock{};
    run([&] { EXPECT_EQ(fiber_rwlock_wrlock(&lock), 0); }); // and ends
    run([&] {
        EXPECT_EQ(fiber_rwlock_rdlock_timeout(&lock, 0), -ETIMEDOUT);
        EXPECT_EQ(fiber_rwlock_unlock(&lock), -EPERM);
    });
}

TEST(RwLock, TRAP_AWriterIsNotStarvedByReadersThatKeepComing) {
    fiber_rwlock_t lock{};
    Trace trace;
    EXPECT_EQ(fiber_rwlock_rdlock(&lock), 0);
    Locker writer{&lock, &trace, 'W'}, a{&lock, &trace, 'a'}, b{&lock, &trace, 'b'};
    std::vector<fiber_t> fibers{start(writer)};
    EXPECT_EQ(fiber_rwlock_tryrdlock(&lock), -EBUSY); // it would overtake
    fibers.push_back(start(a));
    fibers.push_back(start(b));
    EXPECT_EQ(trace, "");
    EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(trace, "W.ab.."); // and the readers together
}

TEST(RwLock, IsGivenInOrderToBatchesOfReaders) {
    fiber_rwlock_t lock{};
    Trace trace;
    EXPECT_EQ(fiber_rwlock_wrlock(&lock), 0);
    Locker lockers[] = {{&lock, &trace, 'a'}, {&lock, &trace, 'b'}, {&lock, &trace, 'W'},
                        {&lock, &trace, 'c'}, {&lock, &trace, 'd'}, {&lock, &trace, 'X'}};
    std::vector<fiber_t> fibers;
    for (Locker &locker : lockers) fibers.push_back(start(locker));
    EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(trace, "ab..W.cd..X.");
}

TEST(RwLockCancel, TRAP_AWriterThatGivesUpLetsTheReadersPass) {
    fiber_rwlock_t lock{};
    Trace trace;
    EXPECT_EQ(fiber_rwlock_rdlock(&lock), 0);
    Locker writer{&lock, &trace, 'W'}, a{&lock, &trace, 'a'};
    const fiber_t first = start(writer), second = start(a);
    EXPECT_EQ(fiber_cancel(first, nullptr), 0);
    join(second); // while the main flow reads
    join(first);
    EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
    EXPECT_EQ(fiber_rwlock_destroy(&lock), 0);
    EXPECT_EQ(std::count(trace.begin(), trace.end(), '-'), 1);
}

TEST(RwLockCancel, EndsAWait) {
    fiber_rwlock_t lock{};
    EXPECT_EQ(fiber_rwlock_wrlock(&lock), 0);
    auto body = [&] { return pointer(fiber_rwlock_rdlock(&lock)); };
    const fiber_t cancelled = start(body);
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(join(cancelled), pointer(-ECANCELED));
    const fiber_t interrupted = start(body);
    EXPECT_EQ(fiber_interrupt(interrupted, nullptr), 0);
    EXPECT_EQ(join(interrupted), pointer(-EINTR));
    const fiber_t in_time = start(body);
    EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
    EXPECT_EQ(fiber_cancel(in_time, nullptr), 0);
    EXPECT_EQ(join(in_time), pointer(0)); // it was granted
    EXPECT_EQ(fiber_rwlock_destroy(&lock), -EBUSY);
    EXPECT_EQ(fiber_rwlock_unlock(&lock), 0); // the lock does not record its readers
    EXPECT_EQ(fiber_rwlock_destroy(&lock), 0);
}

TEST(RwLockThreads, TRAP_ALockGivenToAFiberThatNeverRunsAgainPassesOn) {
    for (bool write : {false, true}) {
        fiber_rwlock_t lock{};
        EXPECT_EQ(fiber_rwlock_wrlock(&lock), 0);
        Doomed doomed([&lock, write] { return write ? fiber_rwlock_wrlock(&lock) : fiber_rwlock_rdlock(&lock); });
        EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
        EXPECT_EQ(fiber_rwlock_trywrlock(&lock), -EBUSY);
        doomed.end();
        EXPECT_EQ(fiber_rwlock_wrlock_timeout(&lock, 0), 0);
    }
}

TEST(RwLockThreads, ReadersSeeTheWritesOfWriters) {
    fiber_rwlock_t lock{};
    const int turns = often(300, 10);
    long a = 0, b = 0;
    auto writes = [&] {
        for (int i = 0; i < turns; i++) {
            EXPECT_EQ(fiber_rwlock_wrlock(&lock), 0);
            a++;
            b++;
            EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
        }
    };
    auto reads = [&] {
        for (int i = 0; i < turns; i++) {
            EXPECT_EQ(fiber_rwlock_rdlock(&lock), 0);
            EXPECT_EQ(a, b);
            EXPECT_EQ(fiber_rwlock_unlock(&lock), 0);
        }
    };
    {
        Worker workers[2];
        std::vector<fiber_t> fibers;
        for (Worker &worker : workers) {
            fibers.push_back(spawn_on(worker, writes));
            fibers.push_back(spawn_on(worker, reads));
            fibers.push_back(spawn_on(worker, reads));
        }
        Thread threads[] = {Thread(writes), Thread(reads)};
        for (fiber_t fiber : fibers) join(fiber);
        for (Thread &thread : threads) thread.join();
    }
    EXPECT_EQ(a, 3 * turns);
}

// A call that is refused may give the others a turn like one that succeeds; the thread may end in it.
TEST(RwLockThreads, AHolderThatLocksAgainReleasesNothingWhenItsThreadEnds) {
    for (bool write : {false, true}) {
        fiber_rwlock_t lock{};
        bool held = false;
        auto asks_again_and_again = [&] {
            EXPECT_EQ(fiber_rwlock_wrlock(&lock), 0);
            held = true;
            auto again = write ? fiber_rwlock_wrlock : fiber_rwlock_rdlock;
            while (again(&lock) == -EDEADLK) continue;
            ADD_FAILURE() << "it was not refused";
        };
        auto begins = [&] {
            EXPECT_EQ(fiber_start(create(asks_again_and_again, On(this_cord_handle()).daemon())), 0);
            while (!held) fiber_reschedule(); // which comes back when its turn is due
        };
        join_cord(start_cord(begins));
        EXPECT_EQ(fiber_rwlock_tryrdlock(&lock), -EBUSY);
        EXPECT_EQ(fiber_rwlock_trywrlock(&lock), -EBUSY);
    }
}

// --- Once ------------------------------------------------------------------------------------------------------------

struct Counted {
    int calls = 0;
    int result = 0;
    static int call(void *self) {
        auto *counted = static_cast<Counted *>(self);
        counted->calls++;
        fiber_reschedule();
        return counted->result;
    }
};

TEST(Once, IsDoneOnceAndTheOthersWaitForIt) {
    fiber_once_t once{};
    Counted counted;
    auto body = [&] {
        EXPECT_EQ(fiber_once(&once, Counted::call, &counted), 0);
        EXPECT_EQ(counted.calls, 1);
    };
    const fiber_t fibers[] = {start(body), start(body), start(body)};
    for (fiber_t fiber : fibers) join(fiber);
    run(body);
    EXPECT_EQ(counted.calls, 1);
    EXPECT_EQ(fiber_once(nullptr, Counted::call, &counted), -EINVAL);
    EXPECT_EQ(fiber_once(&once, nullptr, nullptr), -EINVAL);
}

TEST(Once, TRAP_AnInitialiserThatIsCancelledReopensIt) {
    fiber_once_t once{};
    int calls = 0;
    struct Data {
        int *calls;
    } data{&calls};
    auto sleeps = [](void *argument) {
        ++*static_cast<Data *>(argument)->calls;
        return fiber_sleep(FIBER_SEC(1000));
    };
    auto first = [&] { return pointer(fiber_once(&once, sleeps, &data)); };
    Counted counted;
    auto second = [&] { return pointer(fiber_once(&once, Counted::call, &counted)); };
    const fiber_t fibers[] = {start(first), start(second)};
    EXPECT_TRUE(waits(fibers[1]));
    EXPECT_EQ(fiber_cancel(fibers[0], nullptr), 0);
    EXPECT_EQ(join(fibers[0]), pointer(-ECANCELED));
    EXPECT_EQ(join(fibers[1]), pointer(0));
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(counted.calls, 1);
}

TEST(Once, AnInitialiserThatFailsOrEndsItsFiberReopensIt) {
    fiber_once_t once{};
    Counted failing{0, -EIO};
    EXPECT_EQ(fiber_once(&once, Counted::call, &failing), -EIO);
    auto exits = [](void *) {
        fiber_exit(nullptr);
        return 0;
    };
    run([&] {
        const int result = fiber_once(&once, exits, nullptr);
        ADD_FAILURE() << "it returned " << result;
    });
    Counted counted;
    EXPECT_EQ(fiber_once(&once, Counted::call, &counted), 0);
    EXPECT_EQ(counted.calls, 1);
}

TEST(Once, RecursionIsAnErrorAndAWaiterCanBeCancelled) {
    fiber_once_t once{};
    struct Data {
        fiber_once_t *once;
        int inner = 0;
    } data{&once};
    auto calls_itself = [](void *argument) {
        auto *data = static_cast<Data *>(argument);
        data->inner = fiber_once(
            data->once, [](void *) { return 0; }, nullptr);
        return fiber_yield();
    };
    auto first = [&] { return pointer(fiber_once(&once, calls_itself, &data)); };
    const fiber_t runs = start(first);
    EXPECT_EQ(data.inner, -EDEADLK);
    const fiber_t waiter = start(first);
    EXPECT_EQ(fiber_cancel(waiter, nullptr), 0);
    EXPECT_EQ(join(waiter), pointer(-ECANCELED));
    EXPECT_EQ(fiber_wakeup(runs), 0);
    EXPECT_EQ(join(runs), pointer(0));
}

TEST(OnceThreads, CordsAndPlainThreadsAgree) {
    for (int round = 0; round < often(50, 5); round++) {
        fiber_once_t once{};
        Counted counted;
        auto body = [&] {
            EXPECT_EQ(fiber_once(&once, Counted::call, &counted), 0);
            EXPECT_EQ(counted.calls, 1);
        };
        Thread threads[] = {Thread(body), Thread(body)};
        run(body);
        for (Thread &thread : threads) thread.join();
    }
}

} // namespace
