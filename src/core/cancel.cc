// SPDX-License-Identifier: MIT OR Apache-2.0
// Cancels, interrupts, and the early end of waits.
// fuzz: switch 85 %
#include "core/cancel.h"

#include "core/cord.h"
#include "core/life.h"
#include "core/noswitch.h"
#include "core/scheduler.h"

namespace fiberrt {

void cancel(Cord& cord, Fiber* fiber) {
    if (fiber->sched.state == State::dead || fiber->requests.cancelled) return;
    fiber->requests.cancelled = true;
    if (!fiber->uses_stack() && (fiber->sched.state == State::created || fiber->sched.state == State::scheduled)) {
        cord.executor.ops->cancelled_unrun(cord, fiber);
    } else if (fiber->sched.state == State::created || fiber->sched.state == State::awaiting_stack) {
        if (fiber->sched.state == State::awaiting_stack) awaiting_stack_remove(cord, fiber);
        end_unrun(cord, fiber, FIBER_CANCELLED, 0);
        return;
    }
    pending_update(cord, fiber);
    if (fiber->sched.pending & pending_cancel) stop(cord, fiber, -ECANCELED);
    if (fiber->scopes) scopes_stop_children(cord, fiber);
}

void interrupt(Cord& cord, Fiber* fiber) {
    if (fiber->sched.state == State::dead) return;
    fiber->requests.interrupt_pending = true;
    pending_update(cord, fiber);
    if (fiber->sched.pending & pending_interrupt) stop(cord, fiber, -EINTR);
}

void stop(Cord& cord, Fiber* fiber, int reason) {
    if (fiber->sched.state == State::yielding || fiber->sched.state == State::transferring) {
        if (reason == -EINTR) interrupt_delivered(cord, fiber);
        if (fiber->timeout.deadline != never) wait_deadline_set(cord, fiber, never);
        make_runnable(cord, fiber, State::queued, reason);
    } else if (fiber->sched.state == State::waiting && fiber->wait->stop) {
        fiber->wait->stop(fiber->wait, reason);
    }
}

int why_refused(Cord& cord, Fiber* me) {
    if (noswitch_refuses(me)) return -EPERM;
    if (me->sched.pending & pending_cancel) return -ECANCELED;
    if (me->sched.pending & pending_interrupt) {
        interrupt_delivered(cord, me);
        return -EINTR;
    }
    return -ETIMEDOUT;
}

int check_pending(Cord& cord, Fiber* me) {
    if (noswitch_refuses(me)) return -EPERM;
    charge_and_poll(cord); // first: an interrupt that comes during the turn must not end the next call as well
    return why_refused(cord, me);
}

void interrupt_delivered(Cord& cord, Fiber* fiber) {
    fiber->received.interrupted_value = take_interrupt(fiber);
    fiber->extras.flags |= flag_interrupted;
    fiber->requests.interrupt_pending = false;
    pending_update(cord, fiber);
}

void interrupt_given_back(Cord& cord, Fiber* fiber) {
    if (!note_interrupt(fiber, fiber->received.interrupted_value)) return;
    fiber->extras.flags &= uint8_t(~flag_interrupted);
    fiber->requests.interrupt_pending = true;
    pending_update(cord, fiber);
}

} // namespace fiberrt
