// SPDX-License-Identifier: MIT OR Apache-2.0
// Read-write locks.
#include "posix/locks.h"
#include "posix/holders.h"
#include "posix/parking.h"

namespace fiberrt::posix {

namespace {

constexpr const char* names[] = {"pthread_rwlock_rdlock", "pthread_rwlock_wrlock"};

int writer_of(const pthread_rwlock_t* lock) { return __atomic_load_n(&lock->__data.__cur_writer, __ATOMIC_RELAXED); }

// The record of the fiber that has locked it for writing, if that is a fiber of this thread.
Held* writer_here(const pthread_rwlock_t* lock) {
    Held* held = find_held(lock);
    return held && held->owner == writer_of(lock) ? held : nullptr;
}

// Tries to lock for the fiber `me`. EDEADLK: this fiber has locked the lock for writing.
int try_lock(pthread_rwlock_t* lock, bool writes, uint64_t me) {
    if (const Held* held = writer_here(lock)) return held->fiber == me ? EDEADLK : EBUSY;
    if (!writes) return ::pthread_rwlock_tryrdlock(lock);
    Held* held = make_held(lock);
    if (!held) return EAGAIN;
    int result = ::pthread_rwlock_trywrlock(lock);
    if (!result) note_held(held, lock, me, writer_of(lock));
    return result;
}

int lock_by_c_library(pthread_rwlock_t* lock, bool writes, const Limit& limit) {
    if (!limit.time) return writes ? ::pthread_rwlock_wrlock(lock) : ::pthread_rwlock_rdlock(lock);
    if (limit.clock == CLOCK_REALTIME) // ThreadSanitizer knows only these
        return writes ? ::pthread_rwlock_timedwrlock(lock, limit.time) : ::pthread_rwlock_timedrdlock(lock, limit.time);
    return writes ? ::pthread_rwlock_clockwrlock(lock, limit.clock, limit.time)
                  : ::pthread_rwlock_clockrdlock(lock, limit.clock, limit.time);
}

// Locks for a fiber that cannot wait here: blocks the thread.
int lock_and_block(pthread_rwlock_t* lock, bool writes, uint64_t me, const Limit& limit) {
    int result = try_lock(lock, writes, me);
    if (result != EBUSY) return result;
    if (const Held* held = writer_here(lock)) report_deadlock(names[writes], lock, held->fiber);
    result = lock_by_c_library(lock, writes, limit);
    if (!result && writes) note_held(make_held(lock), lock, me, writer_of(lock)); // try_lock has made room
    return result;
}

int lock(pthread_rwlock_t* lock, bool writes, const Limit& limit) {
    if (!may_wait()) {
        if (!fibers_hold_locks()) return lock_by_c_library(lock, writes, limit);
        return lock_and_block(lock, writes, this_fiber(), limit);
    }
    if (!limit.is_valid()) return EINVAL;
    uint64_t me = this_fiber();
    int result = try_lock(lock, writes, me);
    if (result != EBUSY) return result;
    Unlocks unlocks = lock->__data.__shared ? Unlocks::elsewhere : Unlocks::here;
    auto try_once = [&] { return try_lock(lock, writes, me); };
    if (until_free(lock, unlocks, !writes, limit, try_once, &result)) return result;
    return lock_and_block(lock, writes, me, limit);
}

int lock_by_clock(pthread_rwlock_t* rwlock, bool writes, clockid_t clock, const timespec* time) {
    Limit limit = {time, clock};
    return limit.has_known_clock() ? lock(rwlock, writes, limit) : EINVAL;
}

int try_now(pthread_rwlock_t* lock, bool writes) {
    bool is_fiber = may_wait();
    if (!is_fiber && !fibers_hold_locks())
        return writes ? ::pthread_rwlock_trywrlock(lock) : ::pthread_rwlock_tryrdlock(lock);
    int result = try_lock(lock, writes, this_fiber());
    if (result == EDEADLK) result = EBUSY;
    if (result == EBUSY && is_fiber) done_at_once();
    return result;
}

} // namespace

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept { return posix::lock(lock, false, {}); }
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept { return posix::lock(lock, true, {}); }

int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock, const timespec* time) noexcept {
    return posix::lock(lock, false, {time, CLOCK_REALTIME});
}
int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock, const timespec* time) noexcept {
    return posix::lock(lock, true, {time, CLOCK_REALTIME});
}

int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock, const timespec* time) noexcept {
    return lock_by_clock(lock, false, clock, time);
}
int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock, const timespec* time) noexcept {
    return lock_by_clock(lock, true, clock, time);
}

int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) noexcept { return try_now(lock, false); }
int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) noexcept { return try_now(lock, true); }

int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
    if (Held* held = writer_here(lock)) forget_held(held);
    int result = ::pthread_rwlock_unlock(lock);
    if (result == 0) unlocked(lock);
    return result;
}

} // namespace fiberrt::posix
