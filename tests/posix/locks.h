// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers for the tests of adopted locks: the program itself is adopted (locks_main.cc), so its own calls are replaced.
#ifndef FIBERRT_TESTS_POSIX_LOCKS_H
#define FIBERRT_TESTS_POSIX_LOCKS_H

#include "support.h"

#include <atomic>
#include <dlfcn.h>
#include <functional>
#include <pthread.h>
#include <string>
#include <thread>
#include <time.h>
#include <vector>

namespace locks {

using namespace support;

// A function of the C library as code that is not adopted calls it.
template <class Function>
Function *not_adopted(const char *name, Function *) {
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}
#define NOT_ADOPTED(function) locks::not_adopted(#function, &function)

// Lets the other fibers of the thread run until this one waits.
inline void until_waiting(fiber_t fiber) {
    while (fiber_state(fiber) != FIBER_WAITING) ASSERT_EQ(fiber_reschedule(), 0);
}

// Waits until another thread, or a fiber, has set it.
inline void until_set(const std::atomic<bool> &flag) {
    while (!flag.load()) {
        if (fiber_here()) {
            ASSERT_EQ(fiber_sleep(100'000), 0);
        } else {
            sched_yield();
        }
    }
}

inline timespec absolute(clockid_t clock, int64_t from_now_ns) {
    timespec time;
    clock_gettime(clock, &time);
    int64_t ns = time.tv_nsec + from_now_ns;
    time.tv_sec += ns / 1'000'000'000;
    time.tv_nsec = ns % 1'000'000'000;
    if (time.tv_nsec < 0) time.tv_sec--, time.tv_nsec += 1'000'000'000;
    return time;
}
constexpr int64_t soon = 5'000'000, never = 3600'000'000'000;

struct MutexKind {
    const char *name;
    int type;
    int robust = PTHREAD_MUTEX_STALLED;
    int protocol = PTHREAD_PRIO_NONE;
    int shared = PTHREAD_PROCESS_PRIVATE;

    bool recursive() const { return type == PTHREAD_MUTEX_RECURSIVE; }
    bool checks() const { return type == PTHREAD_MUTEX_ERRORCHECK; }
    // Whether only its owner can unlock it.
    bool owned() const { return recursive() || checks() || robust == PTHREAD_MUTEX_ROBUST || protocol; }
};

inline const std::vector<MutexKind> mutex_kinds = {
    {"normal", PTHREAD_MUTEX_NORMAL},
    {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP},
    {"recursive", PTHREAD_MUTEX_RECURSIVE},
    {"errorcheck", PTHREAD_MUTEX_ERRORCHECK},
    {"robust", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST},
    {"robust_recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ROBUST},
    {"robust_errorcheck", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ROBUST},
    {"inherit", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT},
    {"inherit_recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT},
    {"inherit_robust_errorcheck", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_INHERIT},
    {"shared", PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED},
    {"shared_recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED},
};

struct Mutex {
    explicit Mutex(const MutexKind &kind) {
        pthread_mutexattr_t attr;
        pthread_mutexattr_init(&attr);
        EXPECT_EQ(pthread_mutexattr_settype(&attr, kind.type), 0);
        EXPECT_EQ(pthread_mutexattr_setrobust(&attr, kind.robust), 0);
        EXPECT_EQ(pthread_mutexattr_setprotocol(&attr, kind.protocol), 0);
        EXPECT_EQ(pthread_mutexattr_setpshared(&attr, kind.shared), 0);
        EXPECT_EQ(pthread_mutex_init(&mutex, &attr), 0);
        pthread_mutexattr_destroy(&attr);
    }
    ~Mutex() { pthread_mutex_destroy(&mutex); }
    Mutex(const Mutex &) = delete;
    operator pthread_mutex_t *() { return &mutex; }
    pthread_mutex_t mutex;
};

// Runs a function that returns its results in a plain thread, and in a fiber, and expects the same.
inline void expect_as_in_a_thread(const std::function<std::vector<int>()> &script) {
    std::vector<int> in_thread, in_fiber;
    std::thread thread([&] { in_thread = script(); });
    thread.join();
    run([&] {
        ASSERT_EQ(fiber_here(), 1);
        in_fiber = script();
    });
    EXPECT_EQ(in_fiber, in_thread);
}

} // namespace locks

#endif
