// SPDX-License-Identifier: MIT OR Apache-2.0
// Mutexes. A fiber tries the C library's mutex, and waits in the parking lot while it is taken. The C library tells
// threads apart, not fibers; holders.h records the fiber that holds a mutex, if the mutex is of a kind that has an
// owner.
#include "posix/locks.h"
#include "posix/holders.h"
#include "posix/mutex_kind.h"
#include "posix/parking.h"
#include "posix/simulated.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt::posix {

namespace {

bool is_this_thread(int owner) { return owner == int(syscall(SYS_gettid)); }

// The record of the fiber that holds the mutex, if that is a fiber of this thread.
Held* holder_here(const pthread_mutex_t* mutex, const MutexKind& kind) {
    Held* held = find_held(mutex);
    return held && held->owner == kind.owner() ? held : nullptr;
}

// pthread_mutex_trylock for the fiber `me`. EBUSY also if another fiber of the thread holds the mutex.
int try_lock(pthread_mutex_t* mutex, uint64_t me) {
    MutexKind kind(mutex);
    if (!kind.knows_owner()) [[likely]] {
        int result = ::pthread_mutex_trylock(mutex);
        if (!result) note_locker(mutex, me);
        return result;
    }
    Held* held = make_held(mutex);
    if (!held) return EAGAIN;
    bool is_held_here = held->lock && held->owner == kind.owner();
    if (is_held_here && held->fiber != me) return EBUSY;
    int result = ::pthread_mutex_trylock(mutex);
    if (!is_held_here && (result == 0 || result == EOWNERDEAD)) note_held(held, mutex, me, kind.owner());
    return result;
}

// Whether a lock by this fiber fails with EDEADLK: the mutex checks errors, and the fiber holds it already.
bool refuses_holder(const pthread_mutex_t* mutex, uint64_t me) {
    MutexKind kind(mutex);
    if (!kind.checks_errors()) return false;
    if (const Held* held = holder_here(mutex, kind)) return held->fiber == me;
    return is_this_thread(kind.owner()); // locked before the thread had fibers, or by code that is not adopted
}

int lock_by_c_library(pthread_mutex_t* mutex, const Limit& limit) {
    if (!limit.time) return ::pthread_mutex_lock(mutex);
    // ThreadSanitizer does not know pthread_mutex_clocklock.
    return limit.clock == CLOCK_REALTIME ? ::pthread_mutex_timedlock(mutex, limit.time)
                                         : ::pthread_mutex_clocklock(mutex, limit.clock, limit.time);
}

// Locks the mutex for a fiber that cannot wait here: blocks the thread.
int lock_and_block(pthread_mutex_t* mutex, uint64_t me, const Limit& limit) {
    int result = try_lock(mutex, me);
    if (result != EBUSY || refuses_holder(mutex, me)) return result == EBUSY ? EDEADLK : result;
    MutexKind kind(mutex);
    if (!kind.knows_owner()) {
        if (!limit.time && is_this_thread(kind.owner()))
            report_deadlock("pthread_mutex_lock", mutex, last_locker(mutex));
        result = lock_by_c_library(mutex, limit);
        if (!result) note_locker(mutex, me);
        return result;
    }
    if (const Held* held = holder_here(mutex, kind)) {
        // The C library would take the caller for the holder.
        report_deadlock("pthread_mutex_lock", mutex, held->fiber);
        return EDEADLK;
    }
    result = lock_by_c_library(mutex, limit);
    if (result == 0 || result == EOWNERDEAD)
        note_held(make_held(mutex), mutex, me, kind.owner()); // try_lock has made room
    return result;
}

// Called after try_lock has returned EBUSY.
int lock_slowly(pthread_mutex_t* mutex, uint64_t me, const Limit& limit) {
    if (refuses_holder(mutex, me)) return EDEADLK;
    if (!limit.is_valid()) return EINVAL;
    if (simulated::refuses_holder("pthread_mutex_lock", MutexKind(mutex).owner())) return ENOTSUP;
    Unlocks unlocks = MutexKind(mutex).is_shared() ? Unlocks::elsewhere : Unlocks::here;
    int result;
    if (until_free(
            mutex, unlocks, false, limit, [&] { return try_lock(mutex, me); }, &result))
        return result;
    return lock_and_block(mutex, me, limit);
}

// A lock by a thread that may not wait as a fiber: it has no fibers, or is in a no-switch section.
int lock_by_thread(pthread_mutex_t* mutex, const Limit& limit) {
    return fibers_hold_locks() ? lock_and_block(mutex, this_fiber(), limit) : lock_by_c_library(mutex, limit);
}

int lock(pthread_mutex_t* mutex, const Limit& limit) {
    if (!may_wait()) return lock_by_thread(mutex, limit);
    uint64_t me = this_fiber();
    int result = try_lock(mutex, me);
    return result == EBUSY ? lock_slowly(mutex, me, limit) : result;
}

// Removes the record of a mutex that the caller is about to unlock. EPERM: another fiber of the thread holds it.
int give_up(pthread_mutex_t* mutex) {
    MutexKind kind(mutex);
    if (!kind.knows_owner()) return 0;
    Held* held = holder_here(mutex, kind);
    if (!held) return 0;
    if (held->fiber != this_fiber()) return EPERM;
    if (!kind.is_recursive() || kind.count() == 1) forget_held(held);
    return 0;
}

} // namespace

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
    if (!may_wait() && !fibers_hold_locks()) return ::pthread_mutex_lock(mutex);
    return lock(mutex, {});
}

int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* time) noexcept {
    return lock(mutex, {time, CLOCK_REALTIME});
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* time) noexcept {
    Limit limit = {time, clock};
    return limit.has_known_clock() ? lock(mutex, limit) : EINVAL;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
    bool is_fiber = may_wait();
    if (!is_fiber && !fibers_hold_locks()) return ::pthread_mutex_trylock(mutex);
    int result = try_lock(mutex, this_fiber());
    if (result == EBUSY && is_fiber) done_at_once(); // the caller may try in a loop: the holder must run
    return result;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
    if (fibers_hold_locks()) {
        if (int error = give_up(mutex)) return error;
    }
    int result = ::pthread_mutex_unlock(mutex);
    if (result == 0) unlocked(mutex);
    return result;
}

// A fiber of this thread may hold the lock, so the caller waits as a fiber. The waiter tries by itself:
// pthread_spin_unlock is not replaced, because it has no barrier, so it could miss the waiter.
int pthread_spin_lock(pthread_spinlock_t* lock) noexcept {
    int result = ::pthread_spin_trylock(lock);
    if (result != EBUSY || !may_wait()) return result == EBUSY ? ::pthread_spin_lock(lock) : result;
    auto try_once = [lock] { return ::pthread_spin_trylock(lock); };
    if (until_free(const_cast<int*>(lock), Unlocks::elsewhere, false, {}, try_once, &result)) return result;
    return ::pthread_spin_lock(lock);
}

} // namespace fiberrt::posix
