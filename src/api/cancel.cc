// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_cancel and fiber_interrupt, and the calls by which a fiber asks whether it is cancelled or interrupted.
// fuzz: switch 95 %
#include "api/api.h"
#include "core/remote_requests.h"

using namespace fiberrt;

int fiber_cancel(fiber_t handle, void* reason) {
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    if (where == elsewhere) return cancel_elsewhere(fiber, id_generation(handle.id), reason);
    if (fiber->sched.state == State::dead) return 0;
    note_reason(fiber, reason);
    cancel(*this_cord, fiber);
    return 0;
}

int fiber_cancelled(void** reason) {
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    Fiber* me = cord->sched.current;
    if (me->requests.cancelled && reason) *reason = reason_of(me);
    return me->requests.cancelled;
}

int fiber_interrupt(fiber_t handle, void* value) {
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    if (where == elsewhere) return interrupt_elsewhere(fiber, id_generation(handle.id), value);
    if (fiber->sched.state == State::dead) return 0;
    bool returning_with_one = fiber->sched.state == State::queued && fiber->resume == -EINTR;
    if (returning_with_one || !note_interrupt(fiber, value)) return -EBUSY;
    interrupt(*this_cord, fiber);
    return 0;
}

int fiber_interrupted(void** value) {
    if (!value) return -EINVAL;
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    const Fiber* me = cord->sched.current;
    if (me->was_interrupted()) *value = me->received.interrupted_value;
    return me->was_interrupted();
}
