// SPDX-License-Identifier: MIT OR Apache-2.0
// Read-write locks, semaphores, barriers, joins of threads and work done once, by adopted libraries.
#include "locks.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <mutex>
#include <semaphore.h>
#include <stdexcept>
#include <sys/wait.h>
#include <threads.h>

using namespace locks;

namespace {

TEST(Rwlock, ReadersShareAndWritersWait) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    int readers = 0, writers = 0, most_readers = 0;
    auto read = [&] {
        EXPECT_EQ(pthread_rwlock_rdlock(&lock), 0);
        EXPECT_EQ(writers, 0);
        most_readers = std::max(most_readers, ++readers);
        EXPECT_EQ(fiber_yield(), 0);
        readers--;
        EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
    };
    auto write = [&] {
        EXPECT_EQ(pthread_rwlock_wrlock(&lock), 0);
        EXPECT_EQ(readers, 0);
        EXPECT_EQ(writers++, 0);
        EXPECT_EQ(fiber_yield(), 0);
        writers--;
        EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
    };
    fiber_t first_writer = start(write), reading[3];
    for (fiber_t &fiber : reading) until_waiting(fiber = start(read));
    EXPECT_EQ(readers, 0);
    EXPECT_EQ(fiber_wakeup(first_writer), 0);
    join(first_writer);
    while (readers < 3) ASSERT_EQ(fiber_reschedule(), 0);
    fiber_t second_writer = start(write);
    until_waiting(second_writer);
    EXPECT_EQ(writers, 0);
    for (fiber_t fiber : reading) EXPECT_EQ(fiber_wakeup(fiber), 0);
    for (fiber_t fiber : reading) join(fiber);
    while (!writers) ASSERT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_wakeup(second_writer), 0);
    join(second_writer);
    EXPECT_EQ(most_readers, 3);
}

TEST(Rwlock, AnswersAFiberAsAThread) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    auto script = [&] {
        std::vector<int> results;
        auto say = [&](int result) { results.push_back(result); };
        timespec past = absolute(CLOCK_REALTIME, -soon), near = absolute(CLOCK_REALTIME, soon);
        timespec near_monotonic = absolute(CLOCK_MONOTONIC, soon), invalid = {0, 1'000'000'000};
        say(pthread_rwlock_rdlock(&lock));
        say(pthread_rwlock_tryrdlock(&lock));
        say(pthread_rwlock_trywrlock(&lock));
        say(pthread_rwlock_timedwrlock(&lock, &past));
        say(pthread_rwlock_timedwrlock(&lock, &near));
        say(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &near_monotonic));
        say(pthread_rwlock_timedwrlock(&lock, &invalid));
        say(pthread_rwlock_timedrdlock(&lock, &invalid));
        say(pthread_rwlock_clockrdlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &near));
        for (int i = 0; i < 2; i++) say(pthread_rwlock_unlock(&lock));
        say(pthread_rwlock_wrlock(&lock));
        say(pthread_rwlock_wrlock(&lock));
        say(pthread_rwlock_rdlock(&lock));
        say(pthread_rwlock_tryrdlock(&lock));
        say(pthread_rwlock_trywrlock(&lock));
        say(pthread_rwlock_timedrdlock(&lock, &near));
        say(pthread_rwlock_unlock(&lock));
        say(pthread_rwlock_timedrdlock(&lock, &near));
        say(pthread_rwlock_unlock(&lock));
        return results;
    };
    expect_as_in_a_thread(script);
}

TEST(Rwlock, AnotherFiberOfTheWritersThreadWaits) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    ASSERT_EQ(pthread_rwlock_wrlock(&lock), 0);
    int done = 0;
    auto read = [&] {
        EXPECT_EQ(pthread_rwlock_rdlock(&lock), 0); // the C library would say EDEADLK
        EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
        done++;
    };
    auto write = [&] {
        EXPECT_EQ(pthread_rwlock_wrlock(&lock), 0);
        EXPECT_EQ(pthread_rwlock_wrlock(&lock), EDEADLK);
        EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
        done++;
    };
    fiber_t fibers[] = {start(read), start(write), start(read), start(write)};
    for (fiber_t fiber : fibers) until_waiting(fiber);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
    for (fiber_t fiber : fibers) join(fiber);
}

TEST(Rwlock, ThreadsAndFibersShareIt) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    constexpr int rounds = 200;
    int count = 0;
    auto add = [&] {
        for (int i = 0; i < rounds; i++) {
            EXPECT_EQ(pthread_rwlock_wrlock(&lock), 0);
            int before = count;
            if (fiber_here() && i % 8 == 0) {
                EXPECT_EQ(fiber_reschedule(), 0);
            }
            count = before + 1;
            EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
            EXPECT_EQ(pthread_rwlock_rdlock(&lock), 0);
            int seen = count;
            if (fiber_here() && i % 8 == 0) {
                EXPECT_EQ(fiber_reschedule(), 0);
            }
            EXPECT_EQ(count, seen);
            EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
        }
    };
    std::thread thread(add);
    fiber_t fibers[3];
    for (fiber_t &fiber : fibers) fiber = spawn(add);
    for (fiber_t fiber : fibers) join(fiber);
    thread.join();
    EXPECT_EQ(count, rounds * 4);
}

struct Semaphore {
    explicit Semaphore(unsigned permits = 0) { EXPECT_EQ(sem_init(&semaphore, 0, permits), 0); }
    ~Semaphore() { sem_destroy(&semaphore); }
    Semaphore(const Semaphore &) = delete;
    operator sem_t *() { return &semaphore; }
    sem_t semaphore;
};

TEST(Sem, EachPostReleasesOneFiber) {
    Semaphore semaphore;
    int done = 0;
    auto body = [&] {
        EXPECT_EQ(sem_wait(semaphore), 0);
        done++;
    };
    fiber_t fibers[5];
    for (fiber_t &fiber : fibers) until_waiting(fiber = start(body));
    for (int i = 1; i <= 2; i++) {
        EXPECT_EQ(sem_post(semaphore), 0);
        while (done < i) ASSERT_EQ(fiber_reschedule(), 0);
    }
    for (int i = 0; i < 3; i++) EXPECT_EQ(sem_post(semaphore), 0); // all at once
    for (fiber_t fiber : fibers) join(fiber);
    int left = -1;
    EXPECT_EQ(sem_getvalue(semaphore, &left), 0);
    EXPECT_EQ(left, 0);
}

TEST(Sem, ThreadsAndCodeThatIsNotAdoptedPost) {
    Semaphore semaphore;
    auto body = [&] {
        for (int i = 0; i < 3; i++) EXPECT_EQ(sem_wait(semaphore), 0);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    std::thread([&] { EXPECT_EQ(sem_post(semaphore), 0); }).join();
    std::thread([&] { EXPECT_EQ(NOT_ADOPTED(sem_post)(semaphore), 0); }).join();
    EXPECT_EQ(sem_post(semaphore), 0);
    join(fiber);
}

sem_t *posted_by_handler;
std::atomic<int> handled;

// The signals come while the thread is anywhere in the library.
TEST(Sem, ASignalHandlerPosts) {
    constexpr int signals = 300;
    Semaphore semaphore;
    posted_by_handler = semaphore;
    handled = 0;
    struct sigaction action = {}, before;
    action.sa_handler = [](int) {
        sem_post(posted_by_handler);
        handled++;
    };
    ASSERT_EQ(sigaction(SIGUSR2, &action, &before), 0);
    auto body = [&] {
        for (int i = 0; i < signals / 2; i++) EXPECT_EQ(sem_wait(semaphore), 0);
    };
    fiber_t fibers[] = {spawn(body), spawn(body)};
    std::thread sender([&, thread = pthread_self()] {
        for (int i = 0; i < signals; i++) {
            EXPECT_EQ(pthread_kill(thread, SIGUSR2), 0);
            while (handled <= i) sched_yield();
        }
    });
    while (handled < signals) {
        ASSERT_EQ(fiber_reschedule(), 0);
        sched_yield(); // the sender may need this processor
    }
    for (fiber_t fiber : fibers) join(fiber);
    sender.join();
    ASSERT_EQ(sigaction(SIGUSR2, &before, nullptr), 0);
}

TEST(Sem, AnswersAFiberAsAThread) {
    Semaphore semaphore;
    auto script = [&] {
        std::vector<int> results;
        auto say = [&](int result) {
            results.push_back(result);
            results.push_back(errno);
            errno = 77;
        };
        errno = 77;
        timespec past = absolute(CLOCK_REALTIME, -soon), near = absolute(CLOCK_REALTIME, soon);
        timespec near_monotonic = absolute(CLOCK_MONOTONIC, soon), invalid = {0, 1'000'000'000};
        say(sem_trywait(semaphore));
        say(sem_timedwait(semaphore, &past));
        say(sem_timedwait(semaphore, &near));
        say(sem_clockwait(semaphore, CLOCK_MONOTONIC, &near_monotonic));
        say(sem_timedwait(semaphore, &invalid));
        say(sem_clockwait(semaphore, CLOCK_PROCESS_CPUTIME_ID, &near));
        for (int i = 0; i < 5; i++) say(sem_post(semaphore));
        say(sem_wait(semaphore));
        say(sem_trywait(semaphore));
        say(sem_timedwait(semaphore, &past));
        say(sem_timedwait(semaphore, &invalid));
        say(sem_clockwait(semaphore, CLOCK_MONOTONIC, &near_monotonic));
        say(sem_wait(semaphore));
        return results;
    };
    expect_as_in_a_thread(script);
}

TEST(Sem, NoCancelInterruptOrDeadlineEndsTheWait) {
    Semaphore semaphore;
    bool taken = false;
    auto body = [&] {
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, 0, 0), 0);
        EXPECT_EQ(sem_wait(semaphore), 0);
        taken = true;
        EXPECT_EQ(fiber_sleep(0), -ECANCELED);
        fiber_scope_close(scope, nullptr);
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    for (int i = 0; i < 20; i++) ASSERT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_reschedule(), 0); // a fiber that the child's posts had woken would run
    EXPECT_FALSE(taken);
    EXPECT_EQ(sem_post(semaphore), 0);
    join(fiber);
    EXPECT_TRUE(taken);
}

TEST(Sem, FibersOfAThreadThatEndsTakeNothing) {
    Semaphore semaphore;
    auto never_returns = [&] {
        sem_wait(semaphore);
        ADD_FAILURE() << "its thread has ended";
    };
    std::thread([&] {
        for (int i = 0; i < 3; i++) until_waiting(start(never_returns));
    }).join();
    auto body = [&] { EXPECT_EQ(sem_wait(semaphore), 0); };
    fiber_t fibers[2];
    for (fiber_t &fiber : fibers) until_waiting(fiber = start(body));
    for (int i = 0; i < 2; i++) EXPECT_EQ(sem_post(semaphore), 0);
    for (fiber_t fiber : fibers) join(fiber);
}

TEST(Sem, TheChildOfAForkHasItsOwnBell) {
    Semaphore semaphore;
    bool taken = false;
    auto body = [&] {
        EXPECT_EQ(sem_wait(semaphore), 0);
        taken = true;
    };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    pid_t child = fork();
    if (!child) {
        fiber_t mine[2];
        for (fiber_t &one : mine) {
            one = start(body);
            while (fiber_state(one) != FIBER_WAITING) CHILD_CHECK(fiber_reschedule() == 0);
        }
        for (int i = 0; i < 2; i++) CHILD_CHECK(sem_post(semaphore) == 0);
        for (fiber_t one : mine) CHILD_CHECK(fiber_join(one, nullptr) == 0);
        _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(taken);
    EXPECT_EQ(sem_post(semaphore), 0);
    join(fiber);
}

struct Barrier {
    explicit Barrier(unsigned count) { EXPECT_EQ(pthread_barrier_init(&barrier, nullptr, count), 0); }
    ~Barrier() { EXPECT_EQ(pthread_barrier_destroy(&barrier), 0); }
    Barrier(const Barrier &) = delete;
    operator pthread_barrier_t *() { return &barrier; }
    pthread_barrier_t barrier;
};

TEST(Barrier, FibersOfOneThreadMeet) {
    constexpr int many = 100, rounds = 20; // more than there are offload threads
    Barrier barrier(many);
    int last[rounds] = {}, arrived[rounds] = {};
    auto body = [&] {
        for (int round = 0; round < rounds; round++) {
            arrived[round]++;
            int result = pthread_barrier_wait(barrier);
            EXPECT_TRUE(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD) << result;
            EXPECT_EQ(arrived[round], many);
            if (result) last[round]++;
        }
    };
    fiber_t fibers[many];
    for (fiber_t &fiber : fibers) fiber = spawn(body);
    for (fiber_t fiber : fibers) join(fiber);
    for (int round = 0; round < rounds; round++) EXPECT_EQ(last[round], 1);
}

// The caller that completes the last round may destroy the barrier while the others are on their way out.
TEST(Barrier, TheLastCallerDestroysIt) {
    constexpr int many = 5;
    for (bool by_serial : {true, false}) {
        pthread_barrier_t barrier;
        ASSERT_EQ(pthread_barrier_init(&barrier, nullptr, many + 1), 0);
        int left = 0;
        auto body = [&] {
            const int result = pthread_barrier_wait(&barrier);
            if (by_serial && result == PTHREAD_BARRIER_SERIAL_THREAD) {
                EXPECT_EQ(pthread_barrier_destroy(&barrier), 0);
            }
            left++;
        };
        fiber_t fibers[many];
        for (fiber_t &fiber : fibers) fiber = spawn(body);
        const int result = pthread_barrier_wait(&barrier);
        if (by_serial ? result == PTHREAD_BARRIER_SERIAL_THREAD : true) {
            EXPECT_EQ(pthread_barrier_destroy(&barrier), 0);
            std::memset(&barrier, 0xff, sizeof barrier); // the caller may use the memory again
        }
        for (fiber_t fiber : fibers) join(fiber);
        EXPECT_EQ(left, many);
    }
}

TEST(Barrier, FibersThreadsAndCodeThatIsNotAdoptedMeet) {
    constexpr int rounds = 50;
    Barrier barrier(6);
    std::atomic<int> last = 0;
    auto body = [&] {
        for (int round = 0; round < rounds; round++)
            if (pthread_barrier_wait(barrier) == PTHREAD_BARRIER_SERIAL_THREAD) last++;
    };
    auto not_adopted = [&] {
        for (int round = 0; round < rounds; round++)
            if (NOT_ADOPTED(pthread_barrier_wait)(barrier) == PTHREAD_BARRIER_SERIAL_THREAD) last++;
    };
    std::thread thread(body), other(not_adopted), with_fibers([&] {
        fiber_t fibers[] = {spawn(body), spawn(body)};
        for (fiber_t fiber : fibers) join(fiber);
    });
    fiber_t fibers[] = {spawn(body), spawn(body)};
    for (fiber_t fiber : fibers) join(fiber);
    thread.join();
    other.join();
    with_fibers.join();
    EXPECT_EQ(last, rounds);
}

TEST(Join, OfAThreadWaitsAsAFiber) {
    std::atomic<bool> end = false;
    pthread_t thread;
    ASSERT_EQ(pthread_create(
                  &thread, nullptr,
                  [](void *arg) -> void * {
                      until_set(*static_cast<std::atomic<bool> *>(arg));
                      return pointer(7);
                  },
                  &end),
              0);
    void *result = nullptr;
    bool limits_over = false;
    auto body = [&] {
        timespec near = absolute(CLOCK_REALTIME, soon), near_monotonic = absolute(CLOCK_MONOTONIC, soon);
        EXPECT_EQ(pthread_timedjoin_np(thread, &result, &near), ETIMEDOUT);
        EXPECT_EQ(pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, &near_monotonic), ETIMEDOUT);
        EXPECT_EQ(pthread_clockjoin_np(thread, &result, CLOCK_PROCESS_CPUTIME_ID, &near), EINVAL);
        limits_over = true;
        EXPECT_EQ(pthread_join(thread, &result), 0);
    };
    fiber_t fiber = start(body);
    while (!limits_over) ASSERT_EQ(fiber_reschedule(), 0);
    until_waiting(fiber);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    end = true; // another fiber ends the thread
    join(fiber);
    EXPECT_EQ(result, pointer(7));
}

TEST(Join, OfItselfOrADetachedThreadFails) {
    EXPECT_EQ(pthread_join(pthread_self(), nullptr), EDEADLK);
    std::atomic<bool> end = false;
    std::atomic<int> ended = 0;
    std::thread thread([&] {
        until_set(end);
        ended = 1;
    });
    pthread_t id = thread.native_handle();
    ASSERT_EQ(pthread_detach(id), 0);
    EXPECT_EQ(pthread_join(id, nullptr), EINVAL);
    end = true;
    while (!ended) ASSERT_EQ(fiber_sleep(100'000), 0);
    // std::thread must not be joinable at its end.
    new (&thread) std::thread;
}

TEST(Join, OfAThreadOfC) {
    thrd_t thread;
    ASSERT_EQ(thrd_create(
                  &thread, [](void *) { return -5; }, nullptr),
              thrd_success);
    int result = 0;
    EXPECT_EQ(thrd_join(thread, &result), thrd_success);
    EXPECT_EQ(result, -5);
}

pthread_once_t once = PTHREAD_ONCE_INIT, once_in_fork = PTHREAD_ONCE_INIT;
int times, times_ended;
fiber_t inside_once;

TEST(Once, TheFunctionMayWait) {
    auto body = [&] {
        EXPECT_EQ(pthread_once(&once,
                               [] {
                                   times++;
                                   inside_once = self();
                                   EXPECT_EQ(fiber_yield(), 0);
                                   times_ended++;
                               }),
                  0);
        EXPECT_EQ(times_ended, 1);
    };
    fiber_t fibers[4];
    for (fiber_t &fiber : fibers) until_waiting(fiber = start(body));
    std::thread thread(body);
    EXPECT_EQ(fiber_wakeup(inside_once), 0);
    for (fiber_t fiber : fibers) join(fiber);
    thread.join();
    EXPECT_EQ(times, 1);
}

TEST(Once, TheChildOfAForkBeginsAgain) {
    auto body = [&] { pthread_once(&once_in_fork, [] { EXPECT_EQ(fiber_yield(), 0); }); };
    fiber_t fiber = start(body);
    until_waiting(fiber);
    pid_t child = fork();
    if (!child) {
        static bool begun = false;
        auto mine = [&] { pthread_once(&once_in_fork, [] { begun = true; }); };
        fiber_t one = start(mine);
        CHILD_CHECK(fiber_join(one, nullptr) == 0);
        CHILD_CHECK(begun);
        _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
}

TEST(Once, AnExceptionLeavesItToTheNextFiber) {
    std::once_flag flag;
    int calls = 0;
    fiber_t inside{};
    auto body = [&] {
        try {
            std::call_once(flag, [&] {
                calls++;
                inside = self();
                EXPECT_EQ(fiber_yield(), 0);
                if (calls == 1) throw std::runtime_error("the first");
            });
        } catch (const std::runtime_error &) {
            EXPECT_EQ(calls, 1);
        }
    };
    fiber_t fibers[3];
    for (fiber_t &fiber : fibers) until_waiting(fiber = start(body));
    EXPECT_EQ(fiber_wakeup(inside), 0);
    while (calls < 2) ASSERT_EQ(fiber_reschedule(), 0);
    until_waiting(inside);
    EXPECT_EQ(fiber_wakeup(inside), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(calls, 2);
}

int value_after_a_wait() {
    times++;
    inside_once = self();
    EXPECT_EQ(fiber_yield(), 0);
    return 5;
}
int static_value() {
    static int value = value_after_a_wait();
    return value;
}

TEST(Once, TheInitialiserOfAStaticVariableMayWait) {
    times = 0;
    auto body = [&] { EXPECT_EQ(static_value(), 5); };
    fiber_t fibers[3];
    for (fiber_t &fiber : fibers) until_waiting(fiber = start(body));
    EXPECT_EQ(fiber_wakeup(inside_once), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(times, 1);
}

::once_flag c_flag = ONCE_FLAG_INIT;

TEST(Once, OfC) {
    times = 0;
    auto body = [&] {
        ::call_once(&c_flag, [] {
            times++;
            inside_once = self();
            EXPECT_EQ(fiber_yield(), 0);
        });
    };
    fiber_t fibers[2];
    for (fiber_t &fiber : fibers) until_waiting(fiber = start(body));
    EXPECT_EQ(fiber_wakeup(inside_once), 0);
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(times, 1);
}

std::vector<std::string> replaced(const char *path_part) {
    struct Names {
        const char *part;
        std::vector<std::string> names;
    } names = {path_part, {}};
    fiber_posix_each(
        [](const char *library, const char *function, void *arg) {
            auto &names = *static_cast<Names *>(arg);
            if (strstr(library, names.part)) names.names.push_back(function);
            return 0;
        },
        &names);
    return names.names;
}

bool has(const std::vector<std::string> &names, const char *name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(Adopt, LocksCanBeLeftAlone) {
    EXPECT_TRUE(has(replaced("posix_locks_test"), "pthread_mutex_lock"));
    EXPECT_GT(fiber_posix_release(nullptr), 0);
    EXPECT_GT(fiber_posix_adopt(nullptr, FIBER_POSIX_NO_LOCKS), 0);
    auto names = replaced("posix_locks_test");
    EXPECT_TRUE(has(names, "close"));
    for (const char *name : {"pthread_mutex_lock", "pthread_cond_wait", "sem_post", "pthread_join", "mtx_lock",
                             "pthread_once", "_ZNSt18condition_variable10notify_oneEv"})
        EXPECT_FALSE(has(names, name)) << name;
    EXPECT_GT(fiber_posix_release(nullptr), 0);
    EXPECT_EQ(fiber_posix_adopt(nullptr, 1u << 31), -EINVAL);
    EXPECT_GT(fiber_posix_adopt(nullptr, 0), 0);
    EXPECT_TRUE(has(replaced("posix_locks_test"), "pthread_mutex_lock"));
}

} // namespace
