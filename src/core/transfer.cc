// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers.
// fuzz: switch 95 %
#include "core/transfer.h"

#include "core/handles.h"

namespace fiberrt {

int refuse_transfer(const Fiber* to) {
    if (!to->uses_stack()) return -EINVAL;
    switch (to->sched.state) {
    case State::created:
    case State::yielding:
    case State::transferring: return 0;
    case State::dead: return -ESRCH;
    default: return -EBUSY;
    }
}

int transfer(Cord& cord, fiber_t handle, void* value) {
    Fiber* me = cord.sched.current;
    Fiber* to;
    // Polls first: a poll may wake the target and stop the caller, so both are checked after it.
    poll_if_due(cord);
    if (me->sched.pending) return check_pending(cord, me);
    if (int error = own_fiber(handle, &to)) return error;
    if (int error = refuse_transfer(to)) return error;
    if (to->sched.state == State::created) {
        if (!stack_take(cord, to)) return -EAGAIN;
    } else if (to->sched.state == State::yielding) {
        to->call.wakeup_value = value;
        if (to->timeout.deadline != never) wait_deadline_set(cord, to, never);
    }
    to->received.transferrer = fibers.id_of(me);
    to->transfer_value = value;
    to->resume = 0;
    me->transfer_to = handle.id;
    me->sched.state = State::transferring;
    return to->sched.state == State::created ? give_to_new(cord, me, to) : give_to(cord, me, to);
}

} // namespace fiberrt
