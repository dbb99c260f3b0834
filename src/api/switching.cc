// SPDX-License-Identifier: MIT OR Apache-2.0
// Yield, wakeup, reschedule, transfer, sleeps, no-switch sections.
// fuzz: switch 85 %
#include "api/api.h"
#include "core/noswitch.h"
#include "core/sleep.h"
#include "core/transfer.h"
#include "core/yield.h"

using namespace fiberrt;

namespace {

// Opens a cord for the first call on a thread, and makes the call again. Out of line, so that the calls need no stack
// frame and end with a jump to the switch.
[[gnu::cold, gnu::noinline]] int with_new_cord(int (*call)()) { return cord_open() ? call() : no_cord(); }

} // namespace

int fiber_yield(void) {
    Cord* cord = this_cord;
    if (!cord) [[unlikely]]
        return with_new_cord(fiber_yield);
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    return yield(*cord, me);
}

int fiber_yield_timeout(int64_t timeout_ns) {
    if (timeout_ns < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    return yield_timeout(*cord, me, timeout_ns);
}

int fiber_yield_value(void** value) {
    if (!value) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    int error = yield(*cord, me);
    if (!error) *value = me->call.wakeup_value;
    return error;
}

int fiber_wakeup(fiber_t handle) {
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    if (where == elsewhere) return wakeup_elsewhere(fiber, id_generation(handle.id));
    wake_up(*this_cord, fiber, nullptr);
    return 0;
}

int fiber_wakeup_value(fiber_t handle, void* value) {
    Fiber* fiber;
    int error = own_fiber(handle, &fiber);
    if (error) return error;
    switch (fiber->sched.state) {
    case State::dead: return -ESRCH;
    case State::created:
    case State::scheduled:
    case State::awaiting_stack:
    case State::woken: return -EBUSY;
    default: break;
    }
    if (fiber->sched.permit) return -EBUSY;
    wake_up(*this_cord, fiber, value);
    return 0;
}

int fiber_reschedule(void) {
    Cord* cord = this_cord;
    if (!cord) [[unlikely]]
        return with_new_cord(fiber_reschedule);
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    return reschedule(*cord, me);
}

int fiber_reschedule_if_due(void) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    return reschedule_if_due(*cord, me);
}

int fiber_transfer(fiber_t handle, void* in, void** out) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* to;
    int error = own_fiber(handle, &to);
    if (error) return error;
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    if (int error = refuse_transfer(to)) return error;
    int result = transfer(*cord, handle, in);
    if (result >= 0 && out) *out = me->transfer_value;
    return result;
}

int fiber_transferrer(fiber_t* from, void** value) {
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    const Fiber* me = cord->sched.current;
    uint64_t transferrer = transferrer_of(me);
    if (!transferrer) return -ESRCH;
    if (from) from->id = transferrer;
    if (value) *value = me->transfer_value;
    return 0;
}

int fiber_sleep(int64_t ns) {
    if (ns < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    return sleep_for(*cord, ns);
}

int64_t fiber_every(int64_t* tick_ns, int64_t period_ns) {
    if (!tick_ns || *tick_ns < 0 || period_ns <= 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    return sleep_until_tick(*cord, tick_ns, period_ns);
}

int fiber_noswitch_enter(void) {
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    if (uint16_t(cord->no_switch.depth) == UINT16_MAX) return -EAGAIN;
    noswitch_enter(*cord);
    return 0;
}

int fiber_here(void) {
    const Cord* cord = this_cord;
    if (!cord) return 0;
    const Fiber* me = cord->sched.current;
    return me && !(me->sched.pending & pending_noswitch);
}

int fiber_noswitch_leave(void) {
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    if (cord->no_switch.depth <= cord->no_switch.floor) return -EINVAL;
    noswitch_leave(*cord);
    return 0;
}
