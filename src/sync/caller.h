// SPDX-License-Identifier: MIT OR Apache-2.0
// The caller of a primitive: a fiber, or a thread without a cord. And the identities that locks store for their
// holders.
// fuzz: waiting 75 %
#pragma once

#include "core/cord.h"
#include "core/scheduler.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>

namespace fiberrt {

// Distinguishes holders in this process from holders in the process that it was forked from, if that had several
// threads. The stamp is in the upper bits of an identity, which addresses in user space do not have. It is 0 if there
// was no such fork: then all identities belong to this process and may use all bits. After such a fork, an identity
// with a wider address would be taken for a lost holder. Linux gives such addresses only to programs that ask for them,
// except on RISC-V with five levels of page tables (Sv57), kernels 5.18 to 6.5.
inline constinit uintptr_t identity_stamp = 0;
constexpr int identity_stamp_shift = 48;
inline void identity_stamp_renew() { // never 0 after this
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

    // The identity that mutexes store. Valid only in this process.
    uintptr_t identity() const { return lasting_identity() + identity_stamp; }
    static uintptr_t identity_of(const Cord& cord, const Fiber* fiber) {
        return lasting_identity_of(cord, fiber) + identity_stamp;
    }
    // The identity without the stamp, which stays the same in the child of a fork. A main flow has that of its thread,
    // because the thread may have held locks before it had a cord.
    uintptr_t lasting_identity() const { return cord ? lasting_identity_of(*cord, fiber) : uintptr_t(pthread_self()); }
    static uintptr_t lasting_identity_of(const Cord& cord, const Fiber* fiber) {
        return fiber->life.kind == Kind::main_flow ? cord.main_flow.identity : reinterpret_cast<uintptr_t>(fiber);
    }

    // Returns the error with which a call that may wait must fail at once; 0: none. stoppable: cancels, interrupts and
    // deadlines count; else only a no-switch section.
    int refused(bool stoppable = true) const {
        if (!fiber || !fiber->sched.pending) return 0;
        return stoppable || (fiber->sched.pending & pending_noswitch) ? check_pending(*cord, fiber) : 0;
    }
    // Prepares the caller for a wait, which may give its thread a cord. 0, -ENOTSUP, -ENOMEM.
    int prepare() {
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
    // prepare() and refused(), for a call that waits unless timeout_ns is 0.
    int begin(int64_t timeout_ns) {
        if (int error = timeout_ns ? prepare() : 0) return error; // a cancel may arrive in prepare()
        return refused();
    }
    // For a call that did not have to wait: whether it must let the other fibers run now, by SyncWait::give_turn.
    bool charge_makes_poll_due() const { return this_cord && fiberrt::charge_makes_poll_due(*this_cord); }

private:
    int prepare_slowly();
    static int64_t clock_deadline(Cord* cord, int64_t timeout_ns); // saturating
};

} // namespace fiberrt
