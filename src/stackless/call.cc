// SPDX-License-Identifier: MIT OR Apache-2.0
// Fibers with a stack that act for stackless ones.
#include "stackless/call.h"

#include "core/life.h"

namespace fiberrt {

namespace {

struct CallByStack : JoinWait { // the stackless fiber waits for the helper's end
    int64_t (*fn)(fiber_op_t& record);
    Fiber* helper = nullptr;
    bool ran = false;
    int stop_reason = 0;
};

void* act(void* argument) {
    auto& record = *static_cast<fiber_op_t*>(argument);
    CallByStack& call = hosted_op(record).in<CallByStack>();
    call.ran = true;
    return reinterpret_cast<void*>(call.fn(record)); // the fiber's result; fn may also call fiber_exit with it
}

// Cancels the helper, but does not end the wait: the helper may be using the memory that the record points to.
void stop_call(Wait* wait, int reason) {
    auto& call = *static_cast<CallByStack*>(wait);
    bool first = call.stop_reason == 0;
    if (first || reason == -ECANCELED) call.stop_reason = reason;
    if (!first) return;
    note_reason(call.helper, nullptr);
    cancel(*this_cord, call.helper);
}

int64_t call_has_ended(Cord& cord, Fiber* fiber, HostedOp& op) {
    CallByStack& call = op.in<CallByStack>();
    if (call.result) return call.result; // there was no stack for the helper
    int64_t returned = call.ran ? int64_t(reinterpret_cast<intptr_t>(call.target_result)) : -ECANCELED;
    if (returned != -ECANCELED || !call.stop_reason) return returned;
    if (call.stop_reason == -EINTR) interrupt_delivered(cord, fiber);
    return call.stop_reason;
}

} // namespace

int64_t call_by_stack(Cord& cord, Fiber* fiber, HostedOp& op, int64_t (*fn)(fiber_op_t& record), Stops stops) {
    Fiber* helper;
    int error = fiber_create(cord, Kind::internal, &helper);
    if (error) return error;
    CallByStack& it = op.make<CallByStack>();
    op.go_on = call_has_ended;
    it.fn = fn;
    it.helper = helper;
    helper->call.fn = act;
    helper->call.arg = &record_of(op);
    helper->stack_class = StackPool::class_for(FIBER_STACK_DEFAULT);
    helper->sched.state = State::scheduled;
    cord.sched.queue.push(helper);
    it.target = helper;
    it.what = WaitFor::call;
    it.on_deadline = -ETIMEDOUT;
    if (stops == Stops::yes) it.stop = stop_call;
    helper->joiners.push_back(&it);
    return hosted_park(cord, fiber, it, stops == Stops::yes ? op.deadline : never);
}

} // namespace fiberrt
