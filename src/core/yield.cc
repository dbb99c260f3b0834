// SPDX-License-Identifier: MIT OR Apache-2.0
// Yields with a timeout, and reschedules that poll first.
// fuzz: switch 95 %
#include "core/yield.h"

#include "core/backend.h"

namespace fiberrt {

namespace {

constexpr int64_t time_slice_ns = 100'000;

} // namespace

int yield_timeout(Cord& cord, Fiber* me, int64_t timeout_ns) {
    if (me->sched.permit) return yield(cord, me);
    if (timeout_ns == 0) {
        poll_now(cord);
        if (me->sched.pending) return check_pending(cord, me);
        reschedule(cord, me);
        if (!me->sched.permit) return me->sched.pending ? check_pending(cord, me) : -ETIMEDOUT;
        me->sched.permit = false;
        return 0;
    }
    wait_deadline_set(cord, me, deadline_after(cord, timeout_ns));
    return yield(cord, me);
}

int poll_and_reschedule(Cord& cord, Fiber* me) {
    poll_now(cord);
    if (me->sched.pending) return check_pending(cord, me);
    return reschedule(cord, me);
}

int reschedule_if_due(Cord& cord, Fiber* me) {
    if (environment ? !environment->slice_over() : clock_now() - cord.poll.last_ns < time_slice_ns) return 0;
    return poll_and_reschedule(cord, me);
}

} // namespace fiberrt
