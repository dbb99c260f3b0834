// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations of stackless fibers on fibers and time: reschedule, yield, sleep, join. Each does before and after its
// wait the same as the call of that name before and after park(). Each returns its result, or hosted_waits. (Inline,
// because begin_hosted_op() calls each in one place.)
#pragma once

#include "core/handles.h"
#include "core/life.h"
#include "core/yield.h"
#include "stackless/call.h"
#include "stackless/record.h"

namespace fiberrt {

inline int64_t begin_reschedule(Cord& cord, Fiber* fiber, HostedOp& op) {
    op.go_on = [](Cord&, Fiber* f, HostedOp&) -> int64_t { return f->resume; };
    make_runnable(cord, fiber, State::queued, 0);
    return hosted_waits;
}

inline int64_t begin_yield(Cord& cord, Fiber* fiber, HostedOp& op) {
    op.go_on = [](Cord&, Fiber* f, HostedOp& o) -> int64_t {
        if (!f->resume) record_of(o).value = f->call.wakeup_value;
        return f->resume;
    };
    yield_begin(cord, fiber);
    if (fiber->sched.state == State::yielding && op.deadline != never) wait_deadline_set(cord, fiber, op.deadline);
    return hosted_waits;
}

inline int64_t begin_sleep(Cord& cord, Fiber* fiber, HostedOp& op, int64_t duration_ns) {
    if (duration_ns < 0) return -EINVAL;
    if (duration_ns == 0) return begin_reschedule(cord, fiber, op);
    op.go_on = [](Cord&, Fiber*, HostedOp& o) -> int64_t { return o.in<Wait>().result; };
    Wait& wait = op.make<Wait>();
    wait.what = WaitFor::time;
    wait.stop = stop_at_once;
    int64_t until = deadline_after(cord, duration_ns);
    bool in_time = until <= op.deadline;
    wait.on_deadline = in_time ? 0 : -ETIMEDOUT;
    return hosted_park(cord, fiber, wait, in_time ? until : op.deadline);
}

// by_stack: fiber_join of the record's target; a fiber with a stack calls it, if the target is of another cord.
[[gnu::always_inline]] inline int64_t begin_join(Cord& cord, Fiber* fiber, HostedOp& op,
                                                 int64_t (*by_stack)(fiber_op_t& record)) {
    Fiber* target;
    int where = find({record_of(op).target}, &target);
    if (where < 0) return where;
    if (where == elsewhere) return call_by_stack(cord, fiber, op, by_stack);
    if (is_detached(target)) return error_of_detached(target);
    if (target == fiber) return -EDEADLK;
    if (target->sched.state == State::dead) return join_dead(cord, target, &record_of(op).value);
    op.go_on = [](Cord&, Fiber*, HostedOp& o) -> int64_t { return o.in<JoinWait>().ended(&record_of(o).value); };
    JoinWait& wait = op.make<JoinWait>();
    wait.begin(target);
    return hosted_park(cord, fiber, wait, op.deadline);
}

} // namespace fiberrt
