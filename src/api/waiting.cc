// SPDX-License-Identifier: MIT OR Apache-2.0
// What fibers and threads wait for in memory of the user's: mutexes, conditions, semaphores, events, wait groups,
// read-write locks, once.
#include "sync/cond.h"
#include "sync/event.h"
#include "sync/mutex.h"
#include "sync/once.h"
#include "sync/rwlock.h"
#include "sync/semaphore.h"
#include "sync/wait_group.h"

#include "api/api.h"
#include "api/in_place.h"

#include <bit>
#include <stddef.h>

using namespace fiberrt;
using api::in_place;

// What the initialisers of the header set. offsetof is not promised for these, and works with the compilers that build
// this.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(offsetof(Semaphore, permits) == 16 && offsetof(WaitGroup, count) == 16);
static_assert(offsetof(Event, manual) == 12 && offsetof(Event, is_set) == 13);
static_assert(std::endian::native == std::endian::little, "FIBER_EVENT_INITIALIZER has both bytes in one word");
#pragma GCC diagnostic pop

namespace {

// Nobody waits in it.
template <class Primitive, class Storage>
int destroy(Storage* storage) {
    if (!storage) return -EINVAL;
    auto& primitive = in_place<Primitive>(storage);
    primitive.enter();
    bool busy = !primitive.empty();
    primitive.leave();
    return busy ? -EBUSY : 0;
}

int lock_timeout(fiber_mutex_t* mutex, int64_t timeout_ns, bool stoppable) {
    if (!mutex || timeout_ns < 0) return -EINVAL;
    return mutex_lock(in_place<Mutex>(mutex), Caller::here(), timeout_ns, stoppable);
}

int rwlock_timeout(fiber_rwlock_t* rwlock, bool write, int64_t timeout_ns) {
    if (!rwlock || timeout_ns < 0) return -EINVAL;
    return rwlock_lock(in_place<RwLock>(rwlock), Caller::here(), write, timeout_ns);
}

int rwlock_try(fiber_rwlock_t* storage, bool write) {
    if (!storage) return -EINVAL;
    auto& rwlock = in_place<RwLock>(storage);
    rwlock.enter();
    bool taken = rwlock.try_take(write, RwLock::identity_of(Caller::here()));
    rwlock.leave();
    return taken ? 0 : -EBUSY;
}

} // namespace

int fiber_mutex_lock(fiber_mutex_t* storage) {
    Cord* cord = this_cord;
    if (storage && cord && !(cord->current->attention & attention_noswitch)) [[likely]] {
        auto& mutex = in_place<Mutex>(storage);
        if (mutex.change(0, Caller::identity_of(*cord, cord->current))) [[likely]] {
            mutex.hold(cord, cord->current);
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

int fiber_cond_wait_timeout(fiber_cond_t* cond, fiber_mutex_t* mutex, int64_t timeout_ns) {
    if (!cond || !mutex || timeout_ns < 0) return -EINVAL;
    return cond_wait(in_place<Cond>(cond), in_place<Mutex>(mutex), Caller::here(), timeout_ns);
}

int fiber_cond_wait(fiber_cond_t* cond, fiber_mutex_t* mutex) {
    return fiber_cond_wait_timeout(cond, mutex, FIBER_FOREVER);
}

int fiber_cond_signal(fiber_cond_t* cond) {
    if (!cond) return -EINVAL;
    cond_signal(in_place<Cond>(cond));
    return 0;
}

int fiber_cond_broadcast(fiber_cond_t* cond) {
    if (!cond) return -EINVAL;
    cond_broadcast(in_place<Cond>(cond));
    return 0;
}

int fiber_cond_destroy(fiber_cond_t* cond) { return destroy<Cond>(cond); }

int fiber_sem_init(fiber_sem_t* sem, int64_t permits) {
    if (!sem || permits < 0) return -EINVAL;
    (new (sem) Semaphore)->permits = uint64_t(permits);
    return 0;
}

int fiber_sem_wait_timeout(fiber_sem_t* sem, int64_t n, int64_t timeout_ns) {
    if (!sem || n <= 0 || timeout_ns < 0) return -EINVAL;
    return semaphore_wait(in_place<Semaphore>(sem), Caller::here(), uint64_t(n), timeout_ns);
}

int fiber_sem_wait(fiber_sem_t* sem, int64_t n) { return fiber_sem_wait_timeout(sem, n, FIBER_FOREVER); }

int fiber_sem_trywait(fiber_sem_t* sem, int64_t n) {
    if (!sem || n <= 0) return -EINVAL;
    auto& semaphore = in_place<Semaphore>(sem);
    semaphore.enter();
    bool taken = semaphore.try_take(uint64_t(n));
    semaphore.leave();
    return taken ? 0 : -EAGAIN;
}

int fiber_sem_post(fiber_sem_t* sem, int64_t n) {
    if (!sem || n <= 0) return -EINVAL;
    return semaphore_post(in_place<Semaphore>(sem), uint64_t(n));
}

int64_t fiber_sem_value(fiber_sem_t* sem) {
    if (!sem) return -EINVAL;
    auto& semaphore = in_place<Semaphore>(sem);
    semaphore.enter();
    int64_t permits = int64_t(semaphore.permits);
    semaphore.leave();
    return permits;
}

int fiber_sem_destroy(fiber_sem_t* sem) { return destroy<Semaphore>(sem); }

int fiber_event_init(fiber_event_t* event, unsigned flags) {
    if (!event || (flags & ~(FIBER_EVENT_MANUAL | FIBER_EVENT_SET))) return -EINVAL;
    auto* made = new (event) Event;
    made->manual = flags & FIBER_EVENT_MANUAL;
    made->is_set = flags & FIBER_EVENT_SET;
    return 0;
}

int fiber_event_wait_timeout(fiber_event_t* event, int64_t timeout_ns) {
    if (!event || timeout_ns < 0) return -EINVAL;
    return event_wait(in_place<Event>(event), Caller::here(), timeout_ns);
}

int fiber_event_wait(fiber_event_t* event) { return fiber_event_wait_timeout(event, FIBER_FOREVER); }

int fiber_event_set(fiber_event_t* event) {
    if (!event) return -EINVAL;
    event_set(in_place<Event>(event));
    return 0;
}

int fiber_event_reset(fiber_event_t* storage) {
    if (!storage) return -EINVAL;
    auto& event = in_place<Event>(storage);
    event.enter();
    bool was_set = event.is_set;
    event.is_set = false;
    event.leave();
    return was_set;
}

int fiber_event_is_set(fiber_event_t* storage) {
    if (!storage) return -EINVAL;
    auto& event = in_place<Event>(storage);
    event.enter();
    bool is_set = event.is_set;
    event.leave();
    return is_set;
}

int fiber_event_destroy(fiber_event_t* event) { return destroy<Event>(event); }

int fiber_wg_add(fiber_wg_t* group, int64_t n) {
    int result = group ? wait_group_add(in_place<WaitGroup>(group), n) : -EINVAL;
    return result < 0 ? result : 0;
}

int fiber_wg_done(fiber_wg_t* group) { return group ? wait_group_add(in_place<WaitGroup>(group), -1) : -EINVAL; }

int fiber_wg_wait_timeout(fiber_wg_t* group, int64_t timeout_ns) {
    if (!group || timeout_ns < 0) return -EINVAL;
    return wait_group_wait(in_place<WaitGroup>(group), Caller::here(), timeout_ns);
}

int fiber_wg_wait(fiber_wg_t* group) { return fiber_wg_wait_timeout(group, FIBER_FOREVER); }

int fiber_wg_destroy(fiber_wg_t* group) { return destroy<WaitGroup>(group); }

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
    rwlock.enter();
    bool busy = rwlock.writer || rwlock.readers || !rwlock.empty();
    rwlock.leave();
    return busy ? -EBUSY : 0;
}

int fiber_once(fiber_once_t* storage, int (*fn)(void*), void* arg) {
    if (!storage || !fn) return -EINVAL;
    auto& once = in_place<Once>(storage);
    return once.is_done() ? 0 : once_run(once, Caller::here(), fn, arg);
}
