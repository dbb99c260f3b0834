// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosted fibers: how they are made, ended, and handed out and taken back.
#include "stackless/hosted.h"

#include "api/api.h"
#include "api/attr.h"
#include "base/copy_name.h"
#include "api/hosted_ops.h"
#include "core/noswitch.h"

#include <stdlib.h>

using namespace fiberrt;

namespace {

constexpr fiber_attr default_attr;

int own_hosted(fiber_t handle, Fiber** out) {
    int error = own_fiber(handle, out);
    if (error) return error;
    if ((*out)->state == State::dead) return -ESRCH;
    return (*out)->hosted() ? 0 : -EINVAL;
}

// One whose host may run it.
int handed_out(fiber_t handle, Fiber** out) {
    if (int error = own_hosted(handle, out)) return error;
    if (this_cord->current->hosted()) return -EPERM;
    return (*out)->state == State::handed_out ? 0 : -EBUSY;
}

// The fiber of an operation, if it may start one. 0, -EINVAL, -ESRCH, -EPERM, -EBUSY.
int fiber_of(Cord& cord, const fiber_op_t& op, Fiber** out) {
    Fiber* me = cord.current;
    Fiber* fiber = me;
    if (op.fiber.id) {
        if (int error = own_hosted(op.fiber, &fiber)) return error;
    }
    if (!fiber->hosted()) return -EINVAL;
    if (cord.noswitch_depth) return -EPERM; // in a section, or called by a hook
    *out = fiber;
    if (fiber->state == State::handed_out) return me->hosted() ? -EPERM : 0;
    if (fiber->state != State::running || !fiber->step) return -EBUSY;
    return fiber == me && !fiber->ending ? 0 : -EPERM;
}

// 1: it is done; 0: it will be; or why it cannot be started.
int start(Cord& cord, fiber_op_t& op, Fiber** out) {
    if (int error = fiber_of(cord, op, out)) return error;
    Fiber* fiber = *out;
    if (op.code == FIBER_OP_END && fiber->state == State::handed_out) {
        hosted_end(cord, fiber, op.value);
        return 0;
    }
    HostedOp& hosted = api::hosted_op(op);
    hosted.result = &op.result;
    return hosted_start(cord, fiber, hosted, api::begin_hosted_op) != hosted_waits;
}

struct Batch {
    fiber_completion_t* out;
    int most;
    int count = 0;

    void put(fiber_t fiber, void* user, fiber_op_t* op, int64_t result) { out[count++] = {fiber, user, op, result}; }
    void start_all(Cord& cord, fiber_op_t* const* ops, int op_count);
    void take(Cord& cord);
};

void Batch::start_all(Cord& cord, fiber_op_t* const* ops, int op_count) {
    for (int i = 0; i < op_count; i++) {
        fiber_op_t& op = *ops[i];
        Fiber* fiber = nullptr; // for compilers that do not see that what was begun has one
        op.result = 0;          // not what tells that it was not started, left from earlier
        int begun = start(cord, op, &fiber);
        if (begun == 0) continue;
        if (begun < 0) {
            op.result = begun; // out may be full; if the record is under way its end sets it anew
            if (count < most) put(op.fiber, nullptr, &op, begun);
        } else if (count < most) {
            put(handle_of(fiber), fiber->user(), &op, op.result);
        } else {
            hosted_offer_done(cord, fiber, api::hosted_op(op));
        }
    }
}

void Batch::take(Cord& cord) {
    while (count < most) {
        int64_t result;
        HostedOp* done;
        Fiber* fiber = hosted_take(cord, &result, &done);
        if (!fiber) return;
        put(handle_of(fiber), fiber->user(), done ? &api::record_of(*done) : nullptr, result);
    }
}

// Nobody has a turn. How many were taken when somebody had, 0 at the deadline, or why the wait ended early.
int wait_and_take(Cord& cord, Batch& batch, int64_t deadline) {
    while (!batch.count) {
        // Starting the operations may have called what cancels the caller: a destructor, or the end of a scope of theirs.
        if (cord.current->attention) return attend(cord, cord.current);
        Wait wait;
        wait.what = WaitFor::exchange;
        wait.stop = stop_at_once;
        wait.on_deadline = -ETIMEDOUT;
        cord.executor.exchanger = &wait;
        int error = int(park(cord, wait, deadline));
        cord.executor.exchanger = nullptr; // only now: another would take what this one was woken for, and be waited for itself
        if (error && error != -ETIMEDOUT) return error;
        batch.take(cord);
        if (!error || batch.count) continue;
        return cord.current->attention ? attend(cord, cord.current) : 0;
    }
    return batch.count;
}

int not_started(fiber_op_t* const* ops, int op_count, int error) {
    for (int i = 0; i < op_count; i++) ops[i]->result = -EAGAIN;
    return error;
}

} // namespace

int fiber_hosted_new(fiber_t* out, const fiber_attr_t* given, fiber_step_t step, void* user) {
    if (!out || (given && given->pool)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    const fiber_attr& attr = given ? *given : default_attr;
    if (attr.cord && attr.cord != CordTable::id_of(cord)) return -EINVAL;
    if (cord->closing) return -EPIPE;
    Fiber* fiber;
    Kind kind = attr.daemon ? Kind::daemon : Kind::keeps_cord;
    int error = hosted_create(*cord, kind, step, user, attr.stack_class, &fiber);
    if (error) return error;
    fiber->detached = attr.detached;
    if (attr.free_arg) {
        fiber->free_user = attr.free_arg;
        fiber->along |= along_free_arg;
    }
    if (attr.name[0]) {
        Locked locked(fiber->mail.lock);
        copy_name(fiber->name, sizeof fiber->name, attr.name);
    }
    *out = handle_of(fiber);
    return 0;
}

int fiber_hosted_user(fiber_t handle, void** user) {
    if (!user) return -EINVAL;
    Fiber* fiber;
    int error = own_hosted(handle, &fiber);
    if (!error) *user = fiber->user();
    return error;
}

int fiber_hosted_end(fiber_t handle, void* result) {
    Fiber* fiber;
    if (int error = own_hosted(handle, &fiber)) return error;
    Cord& cord = *this_cord;
    if (fiber->state == State::running && fiber->step) {
        if (fiber != cord.current || fiber->ending) return -EPERM;
        fiber->ending = true;
        fiber->result = result;
        return 0;
    }
    if (int error = handed_out(handle, &fiber)) return error;
    hosted_end(cord, fiber, result);
    return 0;
}

int fiber_hosted_enter(fiber_t handle) {
    Fiber* fiber;
    if (int error = own_hosted(handle, &fiber)) return error;
    Cord& cord = *this_cord;
    if (noswitch_refuses(cord.current)) return -EPERM;
    if (int error = handed_out(handle, &fiber)) return error;
    hosted_enter(cord, fiber);
    return 0;
}

int fiber_hosted_leave(void) {
    Cord* cord = this_cord;
    if (!cord || !cord->executor.host) return -EINVAL;
    if (cord->noswitch_floor) return -EPERM; // called by the library meanwhile, which takes the one entered for granted
    hosted_leave(*cord);
    return 0;
}

int fiber_ops_create(fiber_op_t** out, size_t count) {
    if (!out || !count) return -EINVAL;
    KeepErrno keep;
    if (count > size_t(PTRDIFF_MAX) / sizeof(fiber_op_t))
        return -ENOMEM; // which AddressSanitizer would not let calloc say
    auto* ops = static_cast<fiber_op_t*>(calloc(count, sizeof(fiber_op_t)));
    if (!ops) return -ENOMEM;
    *out = ops;
    return 0;
}

int fiber_ops_destroy(fiber_op_t* ops) {
    free(ops);
    return 0;
}

int fiber_op_start(fiber_op_t* op) {
    if (!op) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* fiber;
    return start(*cord, *op, &fiber);
}

int fiber_exchange(fiber_op_t* const* ops, int op_count, fiber_completion_t* out, int most, int64_t timeout_ns) {
    if (op_count < 0 || (op_count && !ops) || !out || most < 1 || timeout_ns < 0) return -EINVAL;
    for (int i = 0; i < op_count; i++) {
        if (!ops[i]) return -EINVAL;
    }
    Cord* cord = cord_here();
    if (!cord) return not_started(ops, op_count, no_cord());
    Fiber* me = cord->current;
    if (me->attention) return not_started(ops, op_count, attend(*cord, me));
    if (turns_used_up(*cord)) {
        turn_give(*cord);
        if (me->attention) return not_started(ops, op_count, attend(*cord, me));
    }
    if (cord->executor.exchanger) return not_started(ops, op_count, -EBUSY);
    Batch batch = {out, most};
    batch.start_all(*cord, ops, op_count);
    batch.take(*cord);
    if (batch.count) return batch.count;
    if (timeout_ns) return wait_and_take(*cord, batch, deadline_after(*cord, timeout_ns));
    poll_now(*cord);
    take_turns(*cord, me);
    batch.take(*cord);
    return batch.count;
}
