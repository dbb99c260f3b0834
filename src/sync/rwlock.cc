// SPDX-License-Identifier: MIT OR Apache-2.0
// Read-write locks: locking, unlocking, and serving the waiters.
// fuzz: waiting 80 %
#include "sync/rwlock.h"

#include "sync/one_wait.h"

namespace fiberrt {

namespace {

void rwlock_serve(Waiters& list, Completions& done);

void release(RwLock& rwlock, bool write, Completions& done) {
    if (write) {
        rwlock.writer = 0;
    } else {
        rwlock.readers--;
    }
    rwlock_serve(rwlock, done);
}

template <bool write>
void return_rwlock(SyncWait& wait) {
    auto& rwlock = static_cast<RwLock&>(*wait.selected->list);
    LockedList locked(rwlock);
    release(rwlock, write, locked);
}

// The standard does not promise offsetof for this class; the compilers that build this support it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
constexpr WaiterKind reader = {"for a lock", rwlock_serve, return_rwlock<false>, offsetof(RwLock, writer)};
constexpr WaiterKind writer = {"for a lock", rwlock_serve, return_rwlock<true>, offsetof(RwLock, writer)};
#pragma GCC diagnostic pop

// Gives the lock to the waiters at the front that can have it.
void rwlock_serve(Waiters& list, Completions& done) {
    auto& rwlock = static_cast<RwLock&>(list);
    while (Waiter* waiter = rwlock.first()) {
        bool write = waiter->kind == &writer;
        if (!rwlock.free_for(write)) return;
        if (!rwlock.claim(waiter)) continue;
        rwlock.give(write, waiter->number);
        done.add(waiter, 0);
    }
}

} // namespace

int rwlock_lock(RwLock& rwlock, Caller caller, bool write, int64_t timeout_ns) {
    uintptr_t identity = RwLock::identity_of(caller);
    return wait_unless(rwlock, caller, timeout_ns, write ? writer : reader, identity, [&] {
        if (rwlock.writer == identity) return -EDEADLK;
        return rwlock.try_take(write, identity) ? 0 : -EAGAIN;
    });
}

int rwlock_unlock(RwLock& rwlock, Caller caller) {
    LockedList locked(rwlock);
    bool write = rwlock.writer != 0;
    if (write ? rwlock.writer != RwLock::identity_of(caller) : rwlock.readers == 0) return -EPERM;
    release(rwlock, write, locked);
    return 0;
}

} // namespace fiberrt
