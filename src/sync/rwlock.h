// SPDX-License-Identifier: MIT OR Apache-2.0
// A lock of many readers or one writer. It is given in the order of arrival, to a writer, or to all readers that stand
// together: so neither starves the other, and a reader that comes while a writer waits waits too.
// fuzz: waiting 95 %
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct RwLock : Waiters {
    uint64_t readers = 0;
    uintptr_t writer = 0; // the holder for writing; 0: there is none

    // A fiber's identity is its handle: the next fiber of its slot must not own a lock that it left held. It stays the
    // same in the child of a fork, where no list tells which locks the forking fiber holds.
    static uintptr_t identity_of(Caller caller) {
        bool fiber = caller.fiber && caller.fiber->life.kind != Kind::main_flow;
        return fiber ? uintptr_t(fibers.id_of(caller.fiber)) : caller.lasting_identity();
    }

    // Under the lock.
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
