// SPDX-License-Identifier: MIT OR Apache-2.0
// A lock for many readers or one writer. Callers get it in order of arrival: one writer, or all readers up to the next
// writer. So readers and writers do not starve each other: a reader that comes while a writer waits must wait, too.
// fuzz: waiting 95 %
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct RwLock : Waiters {
    uint64_t readers = 0;
    uintptr_t writer = 0; // the holder for writing; 0: there is none

    // The identity of a holder. A fiber's is its handle, not its address: the next fiber in the slot must not own a
    // lock that this one left locked. It stays the same in the child of a fork, because no list has the locks that the
    // forking fiber holds.
    static uintptr_t identity_of(Caller caller) {
        bool fiber = caller.fiber && caller.fiber->life.kind != Kind::main_flow;
        return fiber ? uintptr_t(fibers.id_of(caller.fiber)) : caller.lasting_identity();
    }

    // Called under the lock, like try_take() and give().
    bool free_for(bool write) const { return !writer && !(write && readers); }
    bool try_take(bool write, uintptr_t identity) {
        if (!free_for(write) || first()) return false;
        give(write, identity);
        return true;
    }
    void give(bool write, uintptr_t identity) {
        if (write) {
            writer = identity;
        } else {
            readers++;
        }
    }
};

int rwlock_lock(RwLock& rwlock, Caller caller, bool write, int64_t timeout_ns);
int rwlock_unlock(RwLock& rwlock, Caller caller); // 0, -EPERM

} // namespace fiberrt
