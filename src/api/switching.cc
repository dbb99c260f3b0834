// SPDX-License-Identifier: MIT OR Apache-2.0
// Yield, wakeup, reschedule, transfer, sleeps, no-switch sections.
#include "api/api.h"
#include "core/noswitch.h"
#include "io/backend.h"
#include "sim/sim.h"

using namespace fiberrt;

namespace {

// The first call on a thread: out of line, so that the others keep no frame of their own and end in a jump to the
// switch.
[[gnu::cold, gnu::noinline]] int with_new_cord(int (*call)()) { return cord_open() ? call() : no_cord(); }

constexpr int64_t time_slice_ns = 100'000;

// Parks in a yield, or takes the permit and lets the others have their turn.
inline int yield(Cord& cord, Fiber* me) {
    if (me->permit) {
        me->permit = false;
        make_runnable(cord, me, State::woken, 0);
    } else {
        me->state = State::yielding;
    }
    return give_way(cord, me);
}

struct Tick {
    int64_t due;
    int64_t missed; // ticks before it that are over
};

// The first of the times last + period, last + 2 * period, ... that is not before now.
Tick next_tick(int64_t last, int64_t period_ns, int64_t now) {
    int64_t missed = now > last ? (now - last - 1) / period_ns : 0;
    int64_t due;
    if (__builtin_add_overflow(last + missed * period_ns, period_ns, &due)) due = never;
    return {due, missed};
}

// Why nobody can transfer to a fiber now; 0: one can.
int refuse_transfer(const Fiber* to) {
    if (to->hosted()) return -EINVAL;
    switch (to->state) {
    case State::created:
    case State::yielding:
    case State::transferring: return 0;
    case State::dead: return -ESRCH;
    default: return -EBUSY;
    }
}

} // namespace

int fiber_yield(void) {
    Cord* cord = this_cord;
    if (!cord) [[unlikely]]
        return with_new_cord(fiber_yield);
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    return yield(*cord, me);
}

int fiber_yield_timeout(int64_t timeout_ns) {
    if (timeout_ns < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    if (me->permit) return yield(*cord, me);
    if (timeout_ns == 0) {
        poll_now(*cord);
        if (me->attention) return attend(*cord, me);
        take_turns(*cord, me);
        if (!me->permit) return me->attention ? attend(*cord, me) : -ETIMEDOUT;
        me->permit = false;
        return 0;
    }
    wait_deadline_set(*cord, me, deadline_after(*cord, timeout_ns));
    return yield(*cord, me);
}

int fiber_yield_value(void** value) {
    if (!value) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    int error = yield(*cord, me);
    if (!error) *value = me->wakeup_value;
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
    switch (fiber->state) {
    case State::dead: return -ESRCH;
    case State::created:
    case State::scheduled:
    case State::stackless:
    case State::woken: return -EBUSY;
    default: break;
    }
    if (fiber->permit) return -EBUSY;
    wake_up(*this_cord, fiber, value);
    return 0;
}

int fiber_reschedule(void) {
    Cord* cord = this_cord;
    if (!cord) [[unlikely]]
        return with_new_cord(fiber_reschedule);
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    return take_turns(*cord, me);
}

int fiber_reschedule_if_due(void) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    if (simulated ? !simulation_slice_over() : clock_now() - cord->last_poll_ns < time_slice_ns) return 0;
    poll_now(*cord);
    if (me->attention) return attend(*cord, me);
    return take_turns(*cord, me);
}

int fiber_transfer(fiber_t handle, void* in, void** out) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* to;
    int error = own_fiber(handle, &to);
    if (error) return error;
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    if (int error = refuse_transfer(to)) return error;
    poll_if_due(*cord); // now, not in the middle: a poll may wake the one and stop the other, so both are asked again
    if (me->attention) return attend(*cord, me);
    if (int error = own_fiber(handle, &to)) return error;
    if (int error = refuse_transfer(to)) return error;
    if (to->state == State::created) {
        if (!stack_take(*cord, to)) return -EAGAIN;
    } else if (to->state == State::yielding) {
        to->wakeup_value = in;
        if (to->wait_deadline != never) wait_deadline_set(*cord, to, never);
    }
    to->transferrer = fibers.id_of(me);
    to->transfer_value = in;
    to->resume = 0;
    me->transfer_to = handle.id;
    me->state = State::transferring;
    int result = to->state == State::created ? give_to_new(*cord, me, to) : give_to(*cord, me, to);
    if (result >= 0 && out) *out = me->transfer_value;
    return int(result);
}

int fiber_transferrer(fiber_t* from, void** value) {
    Cord* cord = cord_to_look_at();
    if (!cord) return no_cord();
    const Fiber* me = cord->current;
    if (!me->transferrer || me->hosted()) return -ESRCH;
    if (from) from->id = me->transferrer;
    if (value) *value = me->transfer_value;
    return 0;
}

int fiber_sleep(int64_t ns) {
    if (ns < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    if (ns == 0) {
        poll_now(*cord);
        if (me->attention) return attend(*cord, me);
        return take_turns(*cord, me);
    }
    Wait wait;
    wait.what = WaitFor::time;
    wait.stop = stop_at_once;
    return int(park(*cord, wait, deadline_after(*cord, ns)));
}

int64_t fiber_every(int64_t* tick_ns, int64_t period_ns) {
    if (!tick_ns || *tick_ns < 0 || period_ns <= 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    int64_t now = clock_now();
    if (*tick_ns == 0) *tick_ns = now;
    Tick tick = next_tick(*tick_ns, period_ns, now);
    if (tick.due != never) cord->pace.promise(tick.due, tick.due - now);
    Wait wait;
    wait.what = WaitFor::time;
    wait.stop = stop_at_once;
    if (int64_t error = park(*cord, wait, tick.due)) return error;
    *tick_ns = tick.due;
    return tick.missed;
}

int fiber_noswitch_enter(void) {
    Cord* cord = cord_to_look_at();
    if (!cord) return no_cord();
    if (uint16_t(cord->noswitch_depth) == UINT16_MAX) return -EAGAIN;
    if (cord->noswitch_depth++ == 0) noswitch_entered();
    Fiber* me = cord->current;
    me->attention |= attention_noswitch;
    me->turn &= uint8_t(~turn_plain); // a step may leave the section open
    return 0;
}

int fiber_noswitch_leave(void) {
    Cord* cord = cord_to_look_at();
    if (!cord) return no_cord();
    if (cord->noswitch_depth <= cord->noswitch_floor) return -EINVAL;
    Fiber* me = cord->current;
    if (--cord->noswitch_depth == 0 && !me->hosted()) me->attention &= uint8_t(~attention_noswitch);
    return 0;
}
