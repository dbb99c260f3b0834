// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the stackless fibers that a caller may run, end or start operations of.
#pragma once

#include "stackless/hosted.h"
#include "fiberrt.h"

namespace fiberrt {

// Finds a stackless fiber of the calling thread's cord. 0; -EINVAL: it has a stack; -ESRCH: it has ended; -EPERM.
int own_hosted(fiber_t handle, Fiber** out);

// Finds a stackless fiber that is handed out, which the calling fiber may run. Also -EBUSY: it is not handed out.
int handed_out(fiber_t handle, Fiber** out);

// Finds the fiber of an operation, and checks that it may start one. 0, -EINVAL, -ESRCH, -EPERM, -EBUSY.
inline int fiber_of(Cord& cord, const fiber_op_t& op, Fiber** out) {
    Fiber* me = cord.sched.current;
    Fiber* fiber = me;
    if (op.fiber.id) {
        if (int error = own_hosted(op.fiber, &fiber)) return error;
    }
    if (fiber->uses_stack()) return -EINVAL;
    if (cord.no_switch.depth) return -EPERM; // in a section, or called by a hook
    *out = fiber;
    if (fiber->sched.state == State::handed_out) return me->uses_stack() ? 0 : -EPERM;
    if (fiber->sched.state != State::running || !fiber->step) return -EBUSY;
    return fiber == me && !fiber->requests.ending ? 0 : -EPERM;
}

} // namespace fiberrt
