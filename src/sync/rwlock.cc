// SPDX-License-Identifier: MIT OR Apache-2.0
// Read-write locks.
#include "sync/rwlock.h"

namespace fiberrt {

namespace {

// Serves those whose turn it is.
void rwlock_left(Waiters& list, Completions& done) {
    auto& rwlock = static_cast<RwLock&>(list);
    while (Waiter* waiter = rwlock.first()) {
        if (!rwlock.free_for(waiter->amount)) return;
        if (!rwlock.take(waiter)) continue;
        rwlock.give(waiter->amount, waiter->identity);
        done.add(waiter, 0);
    }
}

void leave(RwLock& rwlock, bool write, Completions& done) {
    if (write) {
        rwlock.writer = 0;
    } else {
        rwlock.readers--;
    }
    rwlock_left(rwlock, done);
}

void rwlock_unwanted(SyncWait& wait) {
    auto& rwlock = static_cast<RwLock&>(*wait.winner->list);
    Changing changing(rwlock);
    leave(rwlock, wait.winner->amount, changing);
}

constexpr WaiterKind locker = {rwlock_left, rwlock_unwanted};

} // namespace

int rwlock_lock(RwLock& rwlock, const Caller& caller, bool write, int64_t timeout_ns) {
    OneWait one(WaitFor::lock, locker);
    one.waiter.amount = write;
    uintptr_t identity = RwLock::identity_of(caller);
    one.waiter.identity = identity;
    bool dead_lock = false;
    int error = wait_unless(rwlock, caller, timeout_ns, one, [&] {
        dead_lock = rwlock.writer == identity;
        if (dead_lock) one.waiter.kind = &gets_nothing;
        return dead_lock || rwlock.try_take(write, identity);
    });
    return dead_lock ? -EDEADLK : error;
}

int rwlock_unlock(RwLock& rwlock, const Caller& caller) {
    Changing changing(rwlock);
    bool write = rwlock.writer != 0;
    if (write ? rwlock.writer != RwLock::identity_of(caller) : rwlock.readers == 0) return -EPERM;
    leave(rwlock, write, changing);
    return 0;
}

} // namespace fiberrt
