// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes fibers with attributes, on the calling thread's cord or on another, and starts them at once.
// fuzz: switch 80 %
#pragma once

#include "core/attr.h"
#include "core/cord.h"
#include "core/handles.h"
#include "core/life.h"

namespace fiberrt {

// Makes a fiber of this cord, not scheduled yet. 0; -EPIPE: the cord is being shut down; -ENOMEM, -EAGAIN.
[[gnu::always_inline]] inline int create(Cord& cord, Fiber** out, const fiber_attr& attr, void* (*fn)(void*),
                                         void* arg) {
    if (cord.closing) return -EPIPE;
    int error = fiber_create(cord, attr.daemon ? Kind::daemon : Kind::keeps_cord, out);
    if (!error) apply(*out, attr, fn, arg);
    return error;
}

// Makes a fiber for another cord, whose handle is to_id, and sends it there. Stores the fiber's handle in *id, if id is
// not null. scheduled: the fiber runs when it arrives. Errors as create(); also -ESRCH: the cord has ended.
int create_elsewhere(Cord* to, uint64_t to_id, uint64_t* id, const fiber_attr& attr, bool scheduled, void* (*fn)(void*),
                     void* arg);

// Asks another cord to start its fiber. 0, -ESRCH, -EBUSY.
int start_elsewhere(Fiber* fiber, fiber_t handle);

// Runs a new fiber of this cord before anything else; the calling fiber comes next. 0, -EAGAIN, -ESRCH, -EBUSY; or why
// the caller may not wait.
[[gnu::always_inline]] inline int start(Cord& cord, fiber_t handle) {
    Fiber* me = cord.sched.current;
    Fiber* fiber;
    // Polls first: a poll may stop the caller, and wake or end the fiber, so both are checked after it.
    poll_if_due(cord);
    if (me->sched.pending) return check_pending(cord, me);
    if (int error = own_fiber(handle, &fiber)) return error;
    if (fiber->sched.state == State::dead) return -ESRCH;
    if (fiber->sched.state != State::created) return -EBUSY;
    bool on_stack = fiber->uses_stack();
    if (on_stack && !stack_take(cord, fiber)) return -EAGAIN;
    me->sched.state = State::queued;
    me->resume = 0;
    cord.sched.queue.push_front(me);
    if (on_stack) return give_to_new(cord, me, fiber);
    fiber->sched.state = State::scheduled;
    cord.sched.queue.push_front(fiber);
    return give_way(cord, me);
}

} // namespace fiberrt
