// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_exchange: starts operations, and hands fibers out to their host.
#include "stackless/exchange.h"

#include "core/handles.h"
#include "stackless/find.h"

namespace fiberrt {

namespace {

// Starts an operation. 1: it is done; 0: it is under way; or why it cannot be started.
[[gnu::always_inline]] inline int start(Cord& cord, fiber_op_t& op, Fiber** out, BeginOp begin) {
    if (int error = fiber_of(cord, op, out)) return error;
    Fiber* fiber = *out;
    if (op.code == FIBER_OP_END && fiber->sched.state == State::handed_out) {
        hosted_end(cord, fiber, op.value);
        return 0;
    }
    HostedOp& hosted = hosted_op(op);
    hosted.result = &op.result;
    if (hosted_start(cord, fiber, hosted, begin) != hosted_waits) return 1;
    if (!fiber->step) record_change_of_hands(cord, fiber);
    return 0;
}

struct Batch {
    fiber_completion_t* out;
    int most;
    int count = 0;

    void put(fiber_t fiber, void* user, fiber_op_t* op, int64_t result) { out[count++] = {fiber, user, op, result}; }
    void start_all(Cord& cord, fiber_op_t* const* ops, int op_count, BeginOp begin);
    void take(Cord& cord);
};

void Batch::start_all(Cord& cord, fiber_op_t* const* ops, int op_count, BeginOp begin) {
    for (int i = 0; i < op_count; i++) {
        fiber_op_t& op = *ops[i];
        Fiber* fiber = nullptr; // for compilers that do not see that start() sets it
        op.result = 0;          // clears -EAGAIN, which not_started() may have left
        int begun = start(cord, op, &fiber, begin);
        if (begun == 0) continue;
        if (begun < 0) {
            op.result = begun; // out may be full. If an operation of the record is under way, its end overwrites this
            if (count < most) put(op.fiber, nullptr, &op, begun);
        } else if (count < most) {
            put(handle_of(fiber), fiber->user(), &op, op.result);
        } else {
            hosted_offer_done(cord, fiber, hosted_op(op));
        }
    }
}

void Batch::take(Cord& cord) {
    while (count < most) {
        int64_t result;
        HostedOp* done;
        Fiber* fiber = hosted_take(cord, &result, &done);
        if (!fiber) return;
        record_change_of_hands(cord, fiber);
        put(handle_of(fiber), fiber->user(), done ? &record_of(*done) : nullptr, result);
    }
}

// Waits for a fiber to take. Returns how many it took, 0 at the deadline, or why the wait ended early.
int wait_and_take(Cord& cord, Batch& batch, int64_t deadline) {
    while (!batch.count) {
        // Starting the operations may have cancelled the caller: by a destructor, or by the end of a fiber's scope.
        if (cord.sched.current->sched.pending) return check_pending(cord, cord.sched.current);
        Wait wait;
        wait.what = WaitFor::exchange;
        wait.stop = stop_at_once;
        wait.on_deadline = -ETIMEDOUT;
        cord.executor.exchanger = &wait;
        int error = int(park(cord, wait, deadline));
        cord.executor.exchanger =
            nullptr; // only now: an exchange by another fiber would take the fibers that this one was woken for
        if (error && error != -ETIMEDOUT) return error;
        batch.take(cord);
        if (!error || batch.count) continue;
        return cord.sched.current->sched.pending ? check_pending(cord, cord.sched.current) : 0;
    }
    return batch.count;
}

} // namespace

int start_op(Cord& cord, fiber_op_t& op, BeginOp begin) {
    Fiber* fiber;
    return start(cord, op, &fiber, begin);
}

int not_started(fiber_op_t* const* ops, int op_count, int error) {
    for (int i = 0; i < op_count; i++) ops[i]->result = -EAGAIN;
    return error;
}

int exchange(Cord& cord, fiber_op_t* const* ops, int op_count, fiber_completion_t* out, int most, int64_t timeout_ns,
             BeginOp begin) {
    Fiber* me = cord.sched.current;
    if (me->sched.pending) return not_started(ops, op_count, check_pending(cord, me));
    if (budget_spent(cord)) {
        poll_and_give_way(cord);
        if (me->sched.pending) return not_started(ops, op_count, check_pending(cord, me));
    }
    if (cord.executor.exchanger) return not_started(ops, op_count, -EBUSY);
    Batch batch = {out, most};
    batch.start_all(cord, ops, op_count, begin);
    batch.take(cord);
    if (batch.count) return batch.count;
    if (timeout_ns) return wait_and_take(cord, batch, deadline_after(cord, timeout_ns));
    poll_now(cord);
    reschedule(cord, me);
    batch.take(cord);
    return batch.count;
}

} // namespace fiberrt
