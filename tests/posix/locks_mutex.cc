// SPDX-License-Identifier: MIT OR Apache-2.0
// Mutexes of adopted libraries, of every kind.
#include "locks.h"

#include <mutex>
#include <sys/mman.h>
#include <sys/wait.h>

using namespace locks;

namespace {

class MutexKinds : public testing::TestWithParam<MutexKind> {
protected:
    MutexKind kind = GetParam();
    Mutex mutex{kind};
};

INSTANTIATE_TEST_SUITE_P(All, MutexKinds, testing::ValuesIn(mutex_kinds),
                         [](const auto &info) { return std::string(info.param.name); });

TEST_P(MutexKinds, AHolderThatWaitsKeepsOnlyTheFibersOutThatWantTheMutex) {
    int entered = 0;
    fiber_t inside{};
    auto body = [&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        EXPECT_EQ(inside.id, 0u);
        inside = self();
        entered++;
        EXPECT_EQ(fiber_yield(), 0); // waits while it holds the mutex
        EXPECT_EQ(inside.id, self().id);
        inside = {};
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    };
    fiber_t fibers[3];
    for (fiber_t &fiber : fibers) fiber = start(body);
    for (int i = 1; i <= 3; i++) {
        while (entered < i) ASSERT_EQ(fiber_reschedule(), 0);
        for (fiber_t fiber : fibers)
            if (fiber_state(fiber) != FIBER_DEAD) until_waiting(fiber);
        EXPECT_EQ(entered, i);
        EXPECT_EQ(fiber_wakeup(inside), 0);
    }
    for (fiber_t fiber : fibers) join(fiber);
}

TEST_P(MutexKinds, AnswersAFiberAsAThread) {
    auto script = [this] {
        std::vector<int> results;
        auto say = [&](int result) { results.push_back(result); };
        timespec past = absolute(CLOCK_REALTIME, -soon), invalid = {0, 1'000'000'000};
        timespec past_monotonic = absolute(CLOCK_MONOTONIC, -soon), later = absolute(CLOCK_REALTIME, never);
        say(pthread_mutex_lock(mutex));
        say(pthread_mutex_trylock(mutex));
        if (kind.recursive()) say(pthread_mutex_unlock(mutex));
        if (kind.recursive() || kind.checks()) {
            say(pthread_mutex_lock(mutex));
            if (kind.recursive()) say(pthread_mutex_unlock(mutex));
        }
        if (!kind.protocol) { // the kernel says EDEADLK of these
            say(pthread_mutex_timedlock(mutex, &past));
            if (kind.recursive()) say(pthread_mutex_unlock(mutex));
            say(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &past_monotonic));
            if (kind.recursive()) say(pthread_mutex_unlock(mutex));
            say(pthread_mutex_timedlock(mutex, &invalid));
            if (kind.recursive()) say(pthread_mutex_unlock(mutex));
        }
        say(pthread_mutex_clocklock(mutex, CLOCK_PROCESS_CPUTIME_ID, &past));
        say(pthread_mutex_unlock(mutex));
        if (kind.owned()) say(pthread_mutex_unlock(mutex));
        say(pthread_mutex_timedlock(mutex, &past)); // free: the time does not matter
        say(pthread_mutex_unlock(mutex));
        say(pthread_mutex_timedlock(mutex, &later));
        say(pthread_mutex_unlock(mutex));
        return results;
    };
    expect_as_in_a_thread(script);
}

TEST_P(MutexKinds, HeldByAnotherThreadItAnswersAFiberAsAThread) {
    std::atomic<bool> held = false, done = false;
    std::thread holder([&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        held = true;
        until_set(done);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    });
    until_set(held);
    auto script = [this] {
        timespec past = absolute(CLOCK_REALTIME, -soon), near = absolute(CLOCK_REALTIME, soon);
        timespec near_monotonic = absolute(CLOCK_MONOTONIC, soon), invalid = {0, -1};
        std::vector<int> results = {pthread_mutex_trylock(mutex), pthread_mutex_timedlock(mutex, &past),
                                    pthread_mutex_timedlock(mutex, &near), pthread_mutex_timedlock(mutex, &invalid)};
        // (glibc 2.36 knows only CLOCK_REALTIME for mutexes with inheritance where the kernel is old.)
        if (!kind.protocol) results.push_back(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &near_monotonic));
        if (kind.owned() && !kind.protocol) results.push_back(pthread_mutex_unlock(mutex));
        return results;
    };
    expect_as_in_a_thread(script);
    done = true;
    holder.join();
}

TEST_P(MutexKinds, ThreadsAndFibersShareIt) {
    constexpr int rounds = 200;
    int count = 0;
    auto add = [&] {
        for (int i = 0; i < rounds; i++) {
            EXPECT_EQ(pthread_mutex_lock(mutex), 0);
            int before = count;
            if (fiber_here() && i % 8 == 0) {
                EXPECT_EQ(fiber_reschedule(), 0);
            }
            count = before + 1;
            EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
        }
    };
    std::thread plain(add), with_fibers([&] {
        fiber_t fibers[4];
        for (fiber_t &fiber : fibers) fiber = spawn(add);
        for (fiber_t fiber : fibers) join(fiber);
    });
    fiber_t fibers[4];
    for (fiber_t &fiber : fibers) fiber = spawn(add);
    for (fiber_t fiber : fibers) join(fiber);
    plain.join();
    with_fibers.join();
    EXPECT_EQ(count, rounds * 9);
}

TEST_P(MutexKinds, AnUnlockByCodeThatIsNotAdoptedIsNoticed) {
    std::atomic<bool> held = false, release = false;
    std::thread holder([&] {
        EXPECT_EQ(NOT_ADOPTED(pthread_mutex_lock)(mutex), 0);
        held = true;
        until_set(release);
        EXPECT_EQ(NOT_ADOPTED(pthread_mutex_unlock)(mutex), 0);
    });
    until_set(held);
    auto body = [&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    release = true;
    join(fiber);
    holder.join();
}

TEST_P(MutexKinds, NoCancelInterruptOrDeadlineEndsTheWait) {
    ASSERT_EQ(pthread_mutex_lock(mutex), 0);
    bool locked = false;
    auto body = [&] {
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, 0, 0), 0); // its deadline has passed
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        locked = true;
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
        EXPECT_EQ(fiber_sleep(0), -ECANCELED); // the cancel is not lost
        fiber_scope_close(scope, nullptr);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_FALSE(locked);
    EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    join(fiber);
    EXPECT_TRUE(locked);
}

TEST_P(MutexKinds, InANoSwitchSectionAFreeOneIsLocked) {
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(pthread_mutex_lock(mutex), 0);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    auto body = [&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    join(fiber);
}

// A fiber waits in fiber_yield with the mutex held, and the main flow, which must not switch, asks for it.
TEST_P(MutexKinds, ADeadlockAcrossAWaitIsReportedWithBothNames) {
    auto body = [&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        EXPECT_EQ(fiber_yield(), 0);
        if (kind.owned()) {
            EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
        }
    };
    fiber_t holder = create(body);
    EXPECT_EQ(fiber_set_name(holder, "the holder"), 0);
    EXPECT_EQ(fiber_start(holder), 0);
    EXPECT_EQ(fiber_set_name(self(), "the main flow"), 0);
    Pipe report;
    int before = dup(STDERR_FILENO);
    ASSERT_EQ(dup2(report.write_end, STDERR_FILENO), STDERR_FILENO);
    std::string text;
    std::thread reader([&] {
        char byte;
        while (::read(report.read_end, &byte, 1) == 1 && byte != '\n') text += byte;
        // Only from here on: the thread blocks in the C library, or will.
        if (!kind.owned()) {
            EXPECT_EQ(NOT_ADOPTED(pthread_mutex_unlock)(mutex), 0);
        }
    });
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(pthread_mutex_lock(mutex), kind.owned() ? EDEADLK : 0);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    reader.join();
    EXPECT_EQ(dup2(before, STDERR_FILENO), STDERR_FILENO);
    ::close(before);
    EXPECT_NE(text.find("deadlock"), std::string::npos) << text;
    EXPECT_NE(text.find("the main flow"), std::string::npos) << text;
    EXPECT_NE(text.find("the holder"), std::string::npos) << text;
    EXPECT_NE(text.find("pthread_mutex_lock"), std::string::npos) << text;
    if (!kind.owned()) {
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    }
    EXPECT_EQ(fiber_wakeup(holder), 0);
    join(holder);
    EXPECT_EQ(fiber_set_name(self(), ""), 0);
}

const MutexKind normal = {"normal", PTHREAD_MUTEX_NORMAL}, recursive = {"recursive", PTHREAD_MUTEX_RECURSIVE},
                errorcheck = {"errorcheck", PTHREAD_MUTEX_ERRORCHECK},
                robust = {"robust", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST};

TEST(RecursiveMutex, BelongsToOneFiberUntilItsLastUnlock) {
    Mutex mutex(recursive);
    ASSERT_EQ(pthread_mutex_lock(mutex), 0);
    ASSERT_EQ(pthread_mutex_lock(mutex), 0);
    bool locked = false;
    auto body = [&] {
        timespec past = absolute(CLOCK_REALTIME, -soon), near = absolute(CLOCK_REALTIME, soon);
        EXPECT_EQ(pthread_mutex_trylock(mutex), EBUSY);
        EXPECT_EQ(pthread_mutex_unlock(mutex), EPERM);
        EXPECT_EQ(pthread_mutex_timedlock(mutex, &past), ETIMEDOUT);
        EXPECT_EQ(pthread_mutex_timedlock(mutex, &near), ETIMEDOUT);
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        locked = true;
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), EPERM);
    };
    fiber_t fiber = start(body);
    // Longer than the timed locks: the last lock waits.
    for (int i = 0; i < 3; i++) ASSERT_EQ(fiber_sleep(soon), 0);
    until_waiting(fiber);
    EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    for (int i = 0; i < 3; i++) ASSERT_EQ(fiber_sleep(soon), 0);
    EXPECT_FALSE(locked);
    EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    join(fiber);
    EXPECT_TRUE(locked);
}

TEST(RecursiveMutex, ManyOfThemAreHeldAtOnceAndReleasedInAnyOrder) {
    constexpr int many = 500;
    std::vector<std::unique_ptr<Mutex>> mutexes;
    for (int i = 0; i < many; i++) mutexes.push_back(std::make_unique<Mutex>(recursive));
    for (auto &mutex : mutexes) ASSERT_EQ(pthread_mutex_lock(*mutex), 0);
    auto expect = [&](int result) {
        auto body = [&] {
            for (int i = 0; i < many; i++) {
                int expected = i % 3 ? result : EBUSY;
                EXPECT_EQ(pthread_mutex_trylock(*mutexes[i]), expected) << i;
                if (!expected) {
                    EXPECT_EQ(pthread_mutex_unlock(*mutexes[i]), 0) << i;
                }
            }
        };
        run(body);
    };
    expect(EBUSY);
    for (int i = (many - 2) / 3 * 3 + 1; i > 0; i -= 3) EXPECT_EQ(pthread_mutex_unlock(*mutexes[i]), 0); // 1, 4, …
    for (int i = 2; i < many; i += 3) EXPECT_EQ(pthread_mutex_unlock(*mutexes[i]), 0);
    expect(0);
    for (int i = 0; i < many; i += 3) EXPECT_EQ(pthread_mutex_unlock(*mutexes[i]), 0);
}

TEST(RecursiveMutex, OfCxx) {
    std::recursive_mutex mutex;
    int inside = 0;
    auto body = [&] {
        std::lock_guard outer(mutex);
        std::lock_guard inner(mutex);
        EXPECT_EQ(inside++, 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        inside--;
    };
    fiber_t fibers[5];
    for (fiber_t &fiber : fibers) fiber = spawn(body);
    for (fiber_t fiber : fibers) join(fiber);
}

TEST(ErrorcheckMutex, RefusesOnlyItsHolder) {
    Mutex mutex(errorcheck);
    ASSERT_EQ(pthread_mutex_lock(mutex), 0);
    auto body = [&] {
        EXPECT_EQ(pthread_mutex_unlock(mutex), EPERM);
        EXPECT_EQ(pthread_mutex_lock(mutex), 0); // not EDEADLK: it waits
        EXPECT_EQ(pthread_mutex_lock(mutex), EDEADLK);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    EXPECT_EQ(pthread_mutex_lock(mutex), EDEADLK);
    EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    join(fiber);
}

TEST(ErrorcheckMutex, LockedByTheThreadBeforeItHadFibersIsKnown) {
    Mutex mutex(errorcheck), nested(recursive);
    std::thread thread([&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        EXPECT_EQ(pthread_mutex_lock(nested), 0);
        EXPECT_EQ(fiber_sleep(0), 0); // opens a cord
        EXPECT_EQ(pthread_mutex_lock(mutex), EDEADLK);
        EXPECT_EQ(pthread_mutex_lock(nested), 0);
        for (int i = 0; i < 2; i++) EXPECT_EQ(pthread_mutex_unlock(nested), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    });
    thread.join();
}

TEST(RobustMutex, TheDeathOfTheHoldersThreadEndsTheWaitOfAFiber) {
    Mutex mutex(robust);
    std::atomic<bool> held = false, die = false;
    std::thread thread([&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        held = true;
        until_set(die);
    });
    until_set(held);
    auto body = [&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), EOWNERDEAD);
        EXPECT_EQ(pthread_mutex_consistent(mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    die = true;
    join(fiber);
    thread.join();
}

TEST(RobustMutex, LeftInconsistentIsNotRecoverable) {
    Mutex mutex(robust);
    std::thread([&] { EXPECT_EQ(pthread_mutex_lock(mutex), 0); }).join();
    ASSERT_EQ(pthread_mutex_lock(mutex), EOWNERDEAD);
    auto body = [&] { EXPECT_EQ(pthread_mutex_lock(mutex), ENOTRECOVERABLE); };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    join(fiber);
}

TEST(SharedMutex, IsHandedOnBetweenProcesses) {
    void *memory = mmap(nullptr, sizeof(pthread_mutex_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto mutex = new (memory)
        Mutex({"shared", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED});
    Pipe held, release;
    pid_t child = fork();
    if (!child) {
        char byte = 0;
        CHILD_CHECK(pthread_mutex_lock(*mutex) == 0);
        CHILD_CHECK(::write(held.write_end, &byte, 1) == 1);
        CHILD_CHECK(::read(release.read_end, &byte, 1) == 1);
        CHILD_CHECK(pthread_mutex_unlock(*mutex) == 0);
        _exit(0);
    }
    char byte = 0;
    ASSERT_EQ(::read(held.read_end, &byte, 1), 1);
    auto body = [&] {
        EXPECT_EQ(pthread_mutex_lock(*mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(*mutex), 0);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    ASSERT_EQ(::write(release.write_end, &byte, 1), 1);
    join(fiber);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    mutex->~Mutex();
    munmap(memory, sizeof(pthread_mutex_t));
}

TEST(ParkedFibers, OfAThreadThatEndsKeepNothing) {
    Mutex mutex(normal);
    ASSERT_EQ(pthread_mutex_lock(mutex), 0);
    auto wants = [&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    };
    auto never_returns = [&] {
        pthread_mutex_lock(mutex);
        ADD_FAILURE() << "its thread has ended";
    };
    std::thread([&] {
        for (int i = 0; i < 3; i++) until_waiting(start(never_returns));
    }).join();
    fiber_t fiber = start(wants);
    until_waiting(fiber);
    EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    join(fiber);
}

TEST(ParkedFibers, OfTheParentDoNotBotherTheChildOfAFork) {
    Mutex mutex(normal);
    ASSERT_EQ(pthread_mutex_lock(mutex), 0);
    auto wants = [&] {
        EXPECT_EQ(pthread_mutex_lock(mutex), 0);
        EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    };
    fiber_t fiber = start(wants);
    until_waiting(fiber);
    pid_t child = fork();
    if (!child) {
        CHILD_CHECK(pthread_mutex_unlock(mutex) == 0);
        CHILD_CHECK(pthread_mutex_lock(mutex) == 0);
        fiber_t mine = start(wants);
        while (fiber_state(mine) != FIBER_WAITING) CHILD_CHECK(fiber_reschedule() == 0);
        CHILD_CHECK(pthread_mutex_unlock(mutex) == 0);
        CHILD_CHECK(fiber_join(mine, nullptr) == 0);
        _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(pthread_mutex_unlock(mutex), 0);
    join(fiber);
}

TEST(SpinLock, HeldAcrossAWaitDoesNotHangTheThread) {
    pthread_spinlock_t lock;
    ASSERT_EQ(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE), 0);
    ASSERT_EQ(pthread_spin_lock(&lock), 0);
    auto body = [&] {
        EXPECT_EQ(pthread_spin_lock(&lock), 0);
        EXPECT_EQ(pthread_spin_unlock(&lock), 0);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    EXPECT_EQ(pthread_spin_unlock(&lock), 0);
    join(fiber);
    pthread_spin_destroy(&lock);
}

} // namespace
