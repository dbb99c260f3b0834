// SPDX-License-Identifier: MIT OR Apache-2.0
// The caller of a primitive: a fiber, or a thread without a cord. And the identities by which primitives know holders.
// fuzz: waiting 75 %
#pragma once

#include "core/cord.h"
#include "core/relay.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>

namespace fiberrt {

// What tells a holder of this process from one of another that it was forked from, and that had several threads: it is
// in those bits of an identity that an address of the user's does not have. Zero where there was no such fork: then each
// belongs to this process, and may have all bits. Elsewhere a wider address is taken for a lost holder's: Linux gives such
// addresses only to programs that ask for them, except on RISC-V with five levels of tables (Sv57) from 5.18 to 6.5.
inline constinit uintptr_t identity_stamp = 0;
constexpr int identity_stamp_shift = 48;
inline void identity_stamp_renew() { // not to 0, ever
    do identity_stamp += uintptr_t(1) << identity_stamp_shift;
    while (!identity_stamp);
}
inline bool is_of_this_process(uintptr_t identity) {
    return !identity_stamp || !((identity ^ identity_stamp) >> identity_stamp_shift);
}

// The caller: a fiber, or a thread without a cord.
struct Caller {
    Cord* cord; // null: there is none
    Fiber* fiber;

    static Caller of(Cord& cord) { return {&cord, cord.sched.current}; }
    static Caller here() {
        Cord* cord = cord_if_any();
        return cord ? of(*cord) : Caller{nullptr, nullptr};
    }

    // Mutexes know the caller by this, in this process alone.
    uintptr_t identity() const { return lasting_identity() + identity_stamp; }
    static uintptr_t identity_of(const Cord& cord, const Fiber* fiber) {
        return lasting_identity_of(cord, fiber) + identity_stamp;
    }
    // What stays the same in the child of a fork: of a main flow the thread's, as that may have held locks before it
    // had a cord.
    uintptr_t lasting_identity() const { return cord ? lasting_identity_of(*cord, fiber) : uintptr_t(pthread_self()); }
    static uintptr_t lasting_identity_of(const Cord& cord, const Fiber* fiber) {
        return fiber->life.kind == Kind::main_flow ? cord.main_flow.identity : reinterpret_cast<uintptr_t>(fiber);
    }

    // What stands in the way of a call that may wait; 0: nothing. stoppable: a cancel does.
    int refused(bool stoppable = true) const {
        if (!fiber || !fiber->sched.attention) return 0;
        return stoppable || (fiber->sched.attention & attention_noswitch) ? attend(*cord, fiber) : 0;
    }
    int prepare() { // to wait. 0, -ENOTSUP, -ENOMEM
        if (this_cord) [[likely]]
            return 0;
        Caller prepared = *this; // a copy, so that this one can stay in registers
        int error = prepared.prepare_slowly();
        *this = prepared;
        return error;
    }
    int64_t deadline(int64_t timeout_ns) const { // absolute
        return timeout_ns == never ? never : clock_deadline(cord, timeout_ns);
    }
    // Both for a call that waits unless timeout_ns is 0.
    int begin(int64_t timeout_ns) {
        if (int error = timeout_ns ? prepare() : 0) return error; // which may bring a cancel
        return refused();
    }
    // Asked by a call that did not have to wait: true, if the other fibers of the cord must get their turn now, by
    // SyncWait::give_turn.
    bool turn_is_due() const { return this_cord && fiberrt::turn_is_due(*this_cord); }

private:
    int prepare_slowly();
    static int64_t clock_deadline(Cord* cord, int64_t timeout_ns); // saturating
};

} // namespace fiberrt
