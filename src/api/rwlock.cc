// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_rwlock_...: read-write locks of sync/rwlock.h in the user's memory.
// fuzz: waiting 95 %
#include "sync/rwlock.h"

#include "api/api.h"
#include "api/in_place.h"

using namespace fiberrt;
using api::in_place;

namespace {

int rwlock_timeout(fiber_rwlock_t* rwlock, bool write, int64_t timeout_ns) {
    if (!rwlock || timeout_ns < 0) return -EINVAL;
    return rwlock_lock(in_place<RwLock>(rwlock), Caller::here(), write, timeout_ns);
}

int rwlock_try(fiber_rwlock_t* storage, bool write) {
    if (!storage) return -EINVAL;
    auto& rwlock = in_place<RwLock>(storage);
    rwlock.lock_list();
    bool taken = rwlock.try_take(write, RwLock::identity_of(Caller::here()));
    rwlock.unlock_list();
    return taken ? 0 : -EBUSY;
}

} // namespace

int fiber_rwlock_rdlock(fiber_rwlock_t* rwlock) { return rwlock_timeout(rwlock, false, FIBER_FOREVER); }

int fiber_rwlock_wrlock(fiber_rwlock_t* rwlock) { return rwlock_timeout(rwlock, true, FIBER_FOREVER); }

int fiber_rwlock_rdlock_timeout(fiber_rwlock_t* rwlock, int64_t timeout_ns) {
    return rwlock_timeout(rwlock, false, timeout_ns);
}

int fiber_rwlock_wrlock_timeout(fiber_rwlock_t* rwlock, int64_t timeout_ns) {
    return rwlock_timeout(rwlock, true, timeout_ns);
}

int fiber_rwlock_tryrdlock(fiber_rwlock_t* rwlock) { return rwlock_try(rwlock, false); }
int fiber_rwlock_trywrlock(fiber_rwlock_t* rwlock) { return rwlock_try(rwlock, true); }

int fiber_rwlock_unlock(fiber_rwlock_t* rwlock) {
    return rwlock ? rwlock_unlock(in_place<RwLock>(rwlock), Caller::here()) : -EINVAL;
}

int fiber_rwlock_destroy(fiber_rwlock_t* storage) {
    if (!storage) return -EINVAL;
    auto& rwlock = in_place<RwLock>(storage);
    rwlock.lock_list();
    bool busy = rwlock.writer || rwlock.readers || !rwlock.empty();
    rwlock.unlock_list();
    return busy ? -EBUSY : 0;
}
