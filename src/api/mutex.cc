// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_mutex_...: mutexes of sync/mutex.h in the user's memory.
// fuzz: waiting 95 %
#include "sync/mutex.h"

#include "api/api.h"
#include "api/in_place.h"

using namespace fiberrt;
using api::in_place;

namespace {

int lock_timeout(fiber_mutex_t* mutex, int64_t timeout_ns, bool stoppable) {
    if (!mutex || timeout_ns < 0) return -EINVAL;
    return mutex_lock(in_place<Mutex>(mutex), Caller::here(), timeout_ns, stoppable);
}

} // namespace

int fiber_mutex_lock(fiber_mutex_t* storage) {
    Cord* cord = this_cord;
    if (storage && cord && !(cord->sched.current->sched.pending & pending_noswitch)) [[likely]] {
        auto& mutex = in_place<Mutex>(storage);
        if (mutex.change(0, Caller::identity_of(*cord, cord->sched.current))) [[likely]] {
            mutex.hold(cord, cord->sched.current);
            return 0;
        }
    }
    return lock_timeout(storage, FIBER_FOREVER, false);
}

int fiber_mutex_lock_timeout(fiber_mutex_t* mutex, int64_t timeout_ns) { return lock_timeout(mutex, timeout_ns, true); }

int fiber_mutex_trylock(fiber_mutex_t* mutex) {
    return mutex ? mutex_trylock(in_place<Mutex>(mutex), Caller::here()) : -EINVAL;
}

int fiber_mutex_unlock(fiber_mutex_t* mutex) {
    if (!mutex) return -EINVAL;
    Cord* cord = this_cord;
    return mutex_unlock(in_place<Mutex>(mutex), cord ? Caller::of(*cord) : Caller::here());
}

int fiber_mutex_destroy(fiber_mutex_t* mutex) {
    if (!mutex) return -EINVAL;
    return mutex_is_busy(in_place<Mutex>(mutex)) ? -EBUSY : 0;
}
