// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosted fibers: their creation, their turns on the executor, and their end.
#include "stackless/hosted.h"

#include "base/check.h"
#include "core/life.h"
#include "core/yield.h"

#include <errno.h>

namespace fiberrt {

namespace {

// Replaces the step of a fiber that broke the contract. The step is not called again with an error: its frame may be
// gone, and a step that always returns nonsense would never end.
int step_of_none(void*, int64_t) { return -1; }

// The result that the fiber's next turn receives; hosted_waits: the fiber waits again. Each turn begins here, or is a
// plain one, which has no mark: so here the fiber continues, for a thread that looks at it (debug/look.h).
inline int64_t result_for(Cord& cord, Fiber* fiber) {
    if (fiber->sched.its_step_flags() & mark_looked) [[unlikely]]
        fiber->sched.drop_step_flags(mark_looked);
    if (!fiber->has_op()) return fiber->resume;
    Acting acting(cord, fiber);
    int64_t result = fiber->call.op->go_on(cord, fiber, *fiber->call.op);
    if (result == hosted_waits) {
        if (fiber->step == step_of_none) stop(cord, fiber, -ECANCELED); // the first stop came before this wait
        return result;
    }
    fiber->sched.drop_step_flags(step_flag_op);
    *fiber->call.op->result = result;
    return result;
}

// Why a call of the fiber that may wait would be refused; 0: it would not.
int refused(Cord& cord, Fiber* fiber) {
    Acting acting(cord, fiber);
    return fiber->sched.pending ? check_pending(cord, fiber) : 0;
}

void step_yields(Cord& cord, Fiber* fiber) {
    if (int error = refused(cord, fiber)) {
        make_runnable(cord, fiber, State::queued, error);
    } else {
        yield_begin(cord, fiber);
    }
}

void again(Cord& cord, Fiber* fiber) {
    int error = refused(cord, fiber);
    if (!error) fiber->sched.add_step_flag(step_flag_plain);
    make_runnable(cord, fiber, State::queued, error);
}

// Ends a fiber whose step went on although an operation is under way. Stops the operation first, which may be using the
// host's memory.
void misused_while_waiting(Cord& cord, Fiber* fiber) {
    fiber->step = step_of_none;
    note_reason(fiber, nullptr);
    cancel(cord, fiber);
    stop(cord, fiber, -ECANCELED); // also in a shielded scope
}

// Begins an operation that was put off; not if the step went on meanwhile, as the host may have reused the memory.
int64_t begin_now(Cord& cord, Fiber* fiber, HostedOp& op) {
    return fiber->step == step_of_none ? -ECANCELED : op.begin(cord, fiber, op);
}

// Handles a step's return value. run_plain_turns() handles the ordinary FIBER_STEP_AGAIN itself.
[[gnu::noinline]] void step_returned(Cord& cord, Fiber* fiber, int how) {
    cord.no_switch.depth = 0; // a section that the step left open ends with it
    fiber->sched.drop_step_flags(step_flag_plain);
    if (fiber->sched.state != State::running) { // it has started an operation
        if (how != FIBER_STEP_WAIT) misused_while_waiting(cord, fiber);
        return;
    }
    switch (how) {
    case FIBER_STEP_END: return hosted_end(cord, fiber, fiber->requests.ending ? fiber->call.result : nullptr);
    case FIBER_STEP_YIELD: return step_yields(cord, fiber);
    case FIBER_STEP_AGAIN: return again(cord, fiber);
    case FIBER_STEP_WAIT: return make_runnable(cord, fiber, State::queued, -EINVAL); // no operation is under way
    default: hosted_end(cord, fiber, nullptr, -EINVAL);
    }
}

// Runs a turn of the head of the queue, and tells the observers before and after it.
void run_hooked_turn(Cord& cord, Fiber* executor, Fiber* fiber) {
    cord.sched.queue.pop_front();
    int64_t result = result_for(cord, fiber);
    if (result == hosted_waits) return;
    fiber->sched.state = State::running;
    observers_switched(cord, executor, fiber);
    cord.sched.current = fiber;
    int how = fiber->step(fiber->user(), result);
    observers_switched(cord, fiber, executor);
    cord.sched.current = fiber;
    step_returned(cord, fiber, how);
    cord.sched.current = executor;
}

int64_t has_been_done(Cord&, Fiber*, HostedOp& op) { return op.returned; }

bool has_step(const Fiber* fiber) { return fiber && fiber->sched.its_step_flags() & step_flag_set; }

// Makes the executor the current fiber again, before the thread does something other than steps. Tells the observer of
// the last step's end: that step may have been the first to set an ambient value on this cord.
void steps_pause(Cord& cord, Fiber* executor) {
    cord.sched.current = executor;
    if (cord.hooked & hooked_by_observers) [[unlikely]]
        observers_switched(cord, executor, executor);
}

// Runs a turn of the head of the queue, after a poll if one is due. False: the head has no step, perhaps since the
// poll.
[[gnu::noinline]] bool run_turn(Cord& cord, Fiber* executor, bool counted) {
    if (!has_step(cord.sched.queue.front())) return false;
    if (!counted) cord.sched.budget--;
    if (cord.sched.budget <= 0) [[unlikely]] {
        steps_pause(cord, executor);
        poll_if_used_up(cord);
        if (!has_step(cord.sched.queue.front())) return false;
        if (cord.hooked & hooked_by_observers) {
            run_hooked_turn(cord, executor, cord.sched.queue.front());
            return true;
        }
    }
    Fiber* fiber = cord.sched.queue.pop();
    cord.sched.queue.prefetch_users();
    int64_t result = result_for(cord, fiber);
    if (result == hosted_waits) return true;
    fiber->sched.state = State::running;
    cord.sched.current = fiber;
    step_returned(cord, fiber, fiber->step(fiber->user(), result));
    return true;
}

// Runs turns of the head of the queue as long as they are plain: turns of coroutines that only give way, the most
// common ones. True: the budget is used up, and the next turn has been counted.
inline bool run_plain_turns(Cord& cord) {
    constexpr uint32_t queued = Fiber::Sched::plain_word(State::queued);
    constexpr uint32_t running = Fiber::Sched::plain_word(State::running);
    Fiber* fiber = cord.sched.queue.front();
    if (!fiber) return false;
    while (fiber->sched.word() == queued) {
        if (--cord.sched.budget < 0) [[unlikely]]
            return true;
        cord.sched.queue.pop_front();
        cord.sched.queue.prefetch_users();
        fiber->sched.set_word(running);
        cord.sched.current = fiber;
        int how = fiber->step(fiber->user(), 0);
        if (how != FIBER_STEP_AGAIN || fiber->sched.word() != running) [[unlikely]] {
            step_returned(cord, fiber, how);
            return false;
        }
        fiber->sched.set_word(queued);
        cord.sched.queue.push(fiber);
        fiber = cord.sched.queue.front_of_some();
    }
    return false;
}

// Runs hosted fibers with a step until the head of the queue is no such fiber.
void run_steps(Cord& cord, Fiber* executor) {
    while (run_turn(cord, executor, run_plain_turns(cord))) {}
    steps_pause(cord, executor);
}

void* run_executor(void*) {
    Cord& cord = *this_cord;
    Fiber* me = cord.sched.current;
    Wait wait;
    wait.what = WaitFor::executor;
    for (;;) {
        run_steps(cord, me);
        wait.fiber = me;
        me->wait = &wait;
        me->sched.state = State::waiting;
        give_way(cord, me);
    }
}

// Makes the executor and takes its stack at once, so that no step ever waits for a stack.
int make_executor(Cord& cord, uint8_t stack_class) {
    Fiber* executor;
    int error = fiber_create(cord, Kind::internal, &executor);
    if (error) return error;
    executor->call.fn = run_executor;
    executor->call.arg = nullptr;
    executor->stack_class = stack_class;
    if (!stack_take(cord, executor)) { // coverage: no memory
        fiber_free(cord, executor);
        return -EAGAIN;
    }
    cord.executor.fiber = executor;
    return 0;
}

} // namespace

namespace {

Fiber* dispatch(Cord& cord, Fiber* fiber) {
    if (!fiber->step) {
        // Now, not when the host takes the fiber: the host may itself wait for something that go_on gives back, as in
        // fiber_close.
        fiber->sched.state = State::queued; // go_on expects this state
        HostedOp* op = fiber->has_op() ? fiber->call.op : nullptr;
        if (result_for(cord, fiber) == hosted_waits) return nullptr;
        op ? hosted_offer_done(cord, fiber, *op) : hosted_offer(cord, fiber);
        return nullptr;
    }
    cord.sched.queue.push_front(fiber);
    Fiber* executor = cord.executor.fiber;
    if (executor->sched.state == State::created) executor->sched.state = State::scheduled;
    return executor;
}

void cancelled_unrun(Cord& cord, Fiber* fiber) {
    fiber->resume = -ECANCELED;
    if (fiber->sched.state == State::scheduled) return;
    fiber->sched.state = State::scheduled;
    cord.sched.queue.push(fiber);
}

void free_user(Cord& cord, Fiber* fiber) {
    stop(cord, fiber, -ECANCELED); // the Wait may lie in the memory freed next
    arg_free(cord, fiber->received.free_user, fiber->user());
}

constexpr ExecutorOps executor_ops = {dispatch, cancelled_unrun, hosted_leave, free_user};

} // namespace

int hosted_create(Cord& cord, Kind kind, fiber_step_t step, void* user, uint8_t executor_class, Fiber** out) {
    int error = step && !cord.executor.fiber ? make_executor(cord, executor_class) : 0;
    if (error) return error;
    Fiber* fiber;
    error = fiber_create(cord, kind, &fiber);
    if (error) return error;
    cord.executor.ops = &executor_ops;
    fiber->stack_class = StackPool::no_stack;
    fiber->sched.pending = pending_noswitch; // for its whole life: it never switches
    fiber->step = step;
    fiber->set_user(user);
    fiber->sched.set_step_flags(step ? step_flag_set : 0);
    fiber->resume = 0;
    *out = fiber;
    return 0;
}

int64_t hosted_start(Cord& cord, Fiber* fiber, HostedOp& op, int64_t (*begin)(Cord& cord, Fiber* fiber, HostedOp& op)) {
    fiber->call.op = &op;
    if (budget_spent(cord)) { // other fibers run first: nothing has been done yet that could be lost meanwhile
        op.begin = begin;
        op.go_on = begin_now;
        fiber->sched.add_step_flag(step_flag_op);
        make_runnable(cord, fiber, State::queued, 0);
        return hosted_waits;
    }
    int64_t budget = cord.sched.budget;
    Acting acting(cord, fiber);
    int64_t result = begin(cord, fiber, op);
    if (result == hosted_waits) {
        fiber->sched.add_step_flag(step_flag_op);
        return result;
    }
    *op.result = result;
    if (cord.sched.budget == budget) charge_call(cord); // else the operation has counted itself
    return result;
}

void hosted_end(Cord& cord, Fiber* fiber, void* result, int error) {
    Fiber* before = cord.sched.current == fiber ? cord.executor.fiber : cord.sched.current;
    observers_switched(cord, before, fiber);
    uint32_t noswitch_depth = cord.no_switch.depth; // of a section that the host is in
    uint32_t noswitch_floor = cord.no_switch.floor;
    cord.no_switch.depth = cord.no_switch.floor = 0;
    cord.sched.current = fiber; // for the destructors of the fiber's keys; it may not wait
    fiber->requests.ending = true;
    if (fiber->extras.locks_held) cord.sync.holder_ended(cord, fiber);
    while (Scope* scope = fiber->scopes) {
        if (scope->has_children) children_cancel(cord, scope, nullptr);
        scope_pop(cord, fiber);
    }
    if (fiber->values.locals) {
        fiber->values.locals->ops->destroy(fiber);
        while (fiber->scopes) scope_pop(cord, fiber);
        if (fiber->extras.locks_held) cord.sync.holder_ended(cord, fiber);
    }
    if (fiber->extras.tag_kind && cord.observer.ops) cord.observer.ops->exits(cord, fiber);
    cord.no_switch.depth = noswitch_depth;
    cord.no_switch.floor = noswitch_floor;
    record_end(cord, fiber);
    observers_switched(cord, nullptr, before);
    cord.sched.current = before;
    fiber->stack_class = 0; // the slot's next fiber may have a stack
    fiber->sched.set_step_flags(0);
    fiber_finish(cord, fiber, result, error);
}

void hosted_enter(Cord& cord, Fiber* fiber) {
    cord.executor.entered_by = cord.sched.current;
    cord.executor.entered_by->extras.flags |= flag_entered;
    fiber->sched.state = State::running;
    observers_switched(cord, cord.executor.entered_by, fiber);
    cord.sched.current = fiber;
}

void hosted_leave(Cord& cord) {
    cord.no_switch.depth = 0; // a section that was left open ends with it
    Fiber* fiber = cord.sched.current;
    observers_switched(cord, fiber, cord.executor.entered_by);
    fiber->sched.state = State::handed_out;
    cord.executor.entered_by->extras.flags &= uint8_t(~flag_entered);
    cord.sched.current = cord.executor.entered_by;
    cord.executor.entered_by = nullptr;
    record_change_of_hands(cord, fiber);
}

void hosted_offer(Cord& cord, Fiber* fiber) {
    fiber->sched.state = State::offered;
    fiber->next_free = nullptr;
    (cord.executor.offered_first ? cord.executor.offered_last->next_free : cord.executor.offered_first) = fiber;
    cord.executor.offered_last = fiber;
    if (cord.executor.exchanger && cord.executor.exchanger->fiber) wake(cord, cord.executor.exchanger, 0);
}

void hosted_offer_done(Cord& cord, Fiber* fiber, HostedOp& op) {
    op.go_on = has_been_done;
    op.returned = *op.result;
    fiber->call.op = &op;
    fiber->sched.add_step_flag(step_flag_op);
    hosted_offer(cord, fiber);
}

Fiber* hosted_take(Cord& cord, int64_t* result, HostedOp** done) {
    for (;;) {
        Fiber* fiber = cord.executor.offered_first;
        if (fiber) {
            cord.executor.offered_first = fiber->next_free;
        } else {
            fiber = cord.sched.queue.front();
            if (!fiber || fiber->uses_stack() || fiber->step) return nullptr;
            cord.sched.queue.pop_front();
        }
        cord.sched.budget--;
        fiber->sched.state = State::queued; // go_on expects this state
        *done = fiber->has_op() ? fiber->call.op : nullptr;
        *result = result_for(cord, fiber);
        if (*result == hosted_waits) continue;
        fiber->sched.state = State::handed_out;
        return fiber;
    }
}

} // namespace fiberrt
