// SPDX-License-Identifier: MIT OR Apache-2.0
// Condition variables, of C and C++. A fiber waits in the parking lot; a signal wakes a fiber and calls the C library's
// function for the threads that wait there. A signal by code that is not adopted wakes no fiber: so a fiber returns
// after a time without a signal, which POSIX allows, and its caller looks at the condition.
#include "posix/locks.h"
#include "posix/holders.h"
#include "posix/parking.h"

namespace fiberrt::posix {

namespace {

constexpr unsigned is_shared = 1, is_monotonic = 2; // of glibc's __wrefs; layout.h checks the second

unsigned flags_of(const pthread_cond_t* cond) { return __atomic_load_n(&cond->__data.__wrefs, __ATOMIC_RELAXED); }

int wait_by_c_library(pthread_cond_t* cond, pthread_mutex_t* mutex, const Limit& limit) {
    return limit.time ? ::pthread_cond_clockwait(cond, mutex, limit.clock, limit.time)
                      : ::pthread_cond_wait(cond, mutex);
}

int wait(pthread_cond_t* cond, pthread_mutex_t* mutex, const Limit& limit) {
    if (!may_wait()) {
        // The C library unlocks the mutex, and wakes no fiber there. So a fiber that waits for the mutex wakes now. If it
        // is too early, it looks for itself soon.
        if (any_parked(mutex)) wake_first(mutex);
        return wait_by_c_library(cond, mutex, limit);
    }
    if (!limit.is_valid()) return EINVAL;
    Place place(cond, flags_of(cond) & is_shared ? Unlocks::elsewhere : Unlocks::signals);
    place.join();
    if (int error = posix::pthread_mutex_unlock(mutex)) return error;
    Next next = Next::block;
    bool look = false;
    {
        // Not earlier: Shielded may wait for a language's own lock (Python's GIL), which it must not do while the fiber
        // holds the mutex.
        Shielded shielded;
        if (shielded) next = place.wait(limit, &look);
    }
    if (next == Next::block) { // looks at the condition every millisecond
        constexpr timespec between_looks = {0, 1'000'000};
        ::nanosleep(&between_looks, nullptr);
    }
    bool may_be_signalled = place.leave() || next == Next::retry || look || limit.left();
    int locked = posix::pthread_mutex_lock(mutex);
    return locked ? locked : may_be_signalled ? 0 : ETIMEDOUT;
}

} // namespace

int pthread_cond_wait(pthread_cond_t* cond, pthread_mutex_t* mutex) { return wait(cond, mutex, {}); }

int pthread_cond_timedwait(pthread_cond_t* cond, pthread_mutex_t* mutex, const timespec* time) {
    return wait(cond, mutex, {time, flags_of(cond) & is_monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME});
}

int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock, const timespec* time) {
    Limit limit = {time, clock};
    return limit.has_known_clock() ? wait(cond, mutex, limit) : EINVAL;
}

int pthread_cond_signal(pthread_cond_t* cond) noexcept {
    int result = ::pthread_cond_signal(cond);
    // Needs no barrier: if this caller has locked or unlocked the mutex after a waiter joined, it sees the waiter.
    if (any_parked(cond)) [[unlikely]]
        wake_first(cond);
    return result;
}

int pthread_cond_broadcast(pthread_cond_t* cond) noexcept {
    int result = ::pthread_cond_broadcast(cond);
    if (any_parked(cond)) [[unlikely]]
        wake_all(cond);
    return result;
}

// The functions of std::condition_variable call the three above. By libstdc++'s ABI, its object begins with the C
// library's.
void condition_variable_wait(void* condition, void* unique_lock) {
    auto* mutex = *static_cast<pthread_mutex_t**>(unique_lock);
    (void)posix::pthread_cond_wait(static_cast<pthread_cond_t*>(condition), mutex);
}
void condition_variable_notify_one(void* condition) {
    (void)posix::pthread_cond_signal(static_cast<pthread_cond_t*>(condition));
}
void condition_variable_notify_all(void* condition) {
    (void)posix::pthread_cond_broadcast(static_cast<pthread_cond_t*>(condition));
}

} // namespace fiberrt::posix
