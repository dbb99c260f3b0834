// SPDX-License-Identifier: MIT OR Apache-2.0
// The scheduler. It switches directly: a thread passes from fiber to fiber without a scheduler's loop in between. A
// fiber that gives way takes the next one off the run queue and switches to it; if there is none, it polls, on its own
// stack, until there is one. It also polls when the budget of switches is used up: about every 50 us, at the latest
// after 256 switches. Woken fibers queue at the end; core/spawn.h and src/stackless also put fibers in front.
// Every call that waits, yields or ends a fiber comes here.
// fuzz: switch 65 %
#pragma once

#include "base/check.h"
#include "core/cancel.h"
#include "core/cord.h"
#include "core/switch.h"
#include "core/wait.h"

#include <errno.h>
#include <stdint.h>

namespace fiberrt {

// give_way(), when the budget is used up, no other fiber is queued, or hooks must be called.
int give_way_slowly(Cord& cord, Fiber* me);
// give_way(), when the next fiber has never run.
int give_way_to_new(Cord& cord, Fiber* me);

// Switches to the head of the queue. `me` is parked or queued already.
inline int give_way_to(Cord& cord, Fiber* me, Fiber* next) {
    FIBERRT_CHECK(!holds_spin_lock());
    if (!next->sp) [[unlikely]]
        return give_way_to_new(cord, me);
    cord.sched.queue.pop_front();
    cord.sched.queue.prefetch();
    next->sched.state = State::running;
    return fiberrt_switch(&cord, next, me);
}

// Gives the thread to the next fiber: the end of every call that waits. `me` is parked or queued already. Returns
// me->resume when `me` continues. Written so that a caller can end in a jump to the switch: then the switch returns to
// the user's code.
inline int give_way(Cord& cord, Fiber* me) {
    if (--cord.sched.budget <= 0 || cord.sched.queue.empty()) [[unlikely]]
        return give_way_slowly(cord, me);
    Fiber* next = cord.sched.queue.front_of_some();
    if (next == me) [[unlikely]]
        return give_way_slowly(cord, me);
    return give_way_to(cord, me, next);
}

// Counts one switch that is about to be made by give_to or give_to_new, and polls if it is due.
void poll_if_due(Cord& cord);

void poll_if_used_up(Cord& cord);            // polls if it is due, when the caller has counted the switch
void set_hooked(Cord& cord, uint8_t hooked); // sets cord.hooked; puts off no poll
bool budget_spent(const Cord& cord);         // whether a poll is due at the next switch

// Counts a call that was done at once as a switch, so that other fibers get their turn in time.
inline void charge_call(Cord& cord) {
    cord.counters.instant_resumes++; // no switch
    cord.sched.budget--;
}

// Counts a call that was done at once, though it might have waited. If a poll is due, polls and lets the other fibers
// run.
void charge_and_poll(Cord& cord);
// charge_and_poll in two steps: charge_makes_poll_due tells whether a poll is due, poll_and_give_way polls and lets the
// others run.
bool poll_due_by_now(Cord& cord); // for a budget that is used up
inline bool charge_makes_poll_due(Cord& cord) {
    charge_call(cord);
    return cord.sched.budget <= 0 && poll_due_by_now(cord);
}
void poll_and_give_way(Cord& cord);

// Gives the thread to a certain fiber, which is parked and not queued; `me` is parked or queued already.
int give_to(Cord& cord, Fiber* me, Fiber* next);

// Starts a new fiber on a stack that the caller has taken for it. me null: the fiber that runs has ended.
int give_to_new(Cord& cord, Fiber* me, Fiber* next);

// Gives the thread away for good: to `next` if it is not null, else as give_way. Does not return, but is not declared
// so. Compilers call a function that does not return, and jump only to one that might; and every call without a return
// makes the processor mispredict the returns that come after.
int leave_slowly(Cord& cord, Fiber* next);
inline int leave(Cord& cord, Fiber* successor) {
    Fiber* next = cord.sched.queue.front();
    if (!successor && cord.sched.budget > 1 && next && next->sp) [[likely]] {
        cord.sched.budget--;
        cord.sched.queue.pop();
        next->sched.state = State::running;
        cord.sched.current = next;
        return fiberrt_leave(&cord, next);
    }
    return leave_slowly(cord, successor);
}

// Takes a stack for a fiber's first run; false: there is none.
inline bool stack_take(Cord& cord, Fiber* fiber) {
    uint8_t stack_class = fiber->stack_class;
    fiber->stack_low = cord.stacks.take(stack_class);
    fiber->stack_class = stack_class;
    return fiber->stack_low;
}

// Lets the first fiber that waits for a stack of this class try again: one may be free.
void offer_stack(Cord& cord, uint8_t stack_class);

inline void stack_give_back(Cord& cord, Fiber* fiber) {
    cord.stacks.give_back(fiber->stack_class, fiber->stack_low);
    fiber->stack_low = nullptr;
    if (cord.awaiting_stack.first) [[unlikely]]
        offer_stack(cord, fiber->stack_class);
}

// Takes a fiber out of the list of fibers that wait for a stack.
void awaiting_stack_remove(Cord& cord, Fiber* fiber);

// Sets the deadline of the fiber's present wait, and its timer; `never`: none. Deadlines of scopes stay.
void wait_deadline_set(Cord& cord, Fiber* fiber, int64_t deadline);

// Puts a parked fiber into the run queue. When it continues, its switch returns `resume`.
inline void make_runnable(Cord& cord, Fiber* fiber, State queued_as, int resume) {
    fiber->sched.state = queued_as;
    fiber->resume = resume;
    cord.sched.queue.push(fiber);
}

// Ends a wait: stores the result and makes the waiter runnable.
inline void wake(Cord& cord, Wait* wait, int64_t result) {
    Fiber* fiber = wait->fiber;
    FIBERRT_CHECK(fiber && fiber->wait == wait);
    wait->fiber = nullptr;
    wait->result = result;
    if (fiber->timeout.deadline != never) wait_deadline_set(cord, fiber, never);
    if (result == -EINTR) [[unlikely]]
        interrupt_delivered(cord, fiber);
    make_runnable(cord, fiber, State::queued, result == -EINTR ? -EINTR : 0); // park() ignores this, other calls do not
}

// Parks the calling fiber until the wait is ended; returns its result. deadline: absolute, `never` for none.
inline int64_t park(Cord& cord, Wait& wait, int64_t deadline = never) {
    Fiber* me = cord.sched.current;
    wait.fiber = me;
    me->wait = &wait;
    me->sched.state = State::waiting;
    if (deadline != never) wait_deadline_set(cord, me, deadline);
    give_way(cord, me);
    return wait.result;
}

// Prepares a wait that another cord may end (core/shared_wait.h). `stop` takes it out of the list that it will be in.
// cord null: a thread without a cord waits.
inline void shared_wait_prepare(Cord* cord, SharedWait& wait, Wait::Stop stop) {
    wait.stop = stop;
    wait.on_deadline = -ETIMEDOUT;
    wait.receive = shared_wait_come_home;
    wait.home = cord;
    if (cord) cord->shared.count++;
}

// Whether this thread has completed the wait since it was prepared: then its fiber need not wait.
inline bool shared_wait_is_over(SharedWait& wait) {
    if (!wait.answered.load(std::memory_order_relaxed)) return false;
    wait.home->shared.count--;
    return true;
}

// Returns the result of the wait, when its fiber continues.
inline int64_t shared_wait_ended(SharedWait& wait) {
    if (wait.linked()) wait.home->shared.ended.remove(&wait);
    return wait.result;
}

// Waits until the wait is completed or stopped. A thread without a cord is not stopped: if withdraw() takes the wait
// out of all lists, it returns at the deadline; with no deadline and no other thread, it returns -EDEADLK at once.
// (Always inlined: it takes most of the time of a wait between fibers.)
[[gnu::always_inline]] inline int64_t shared_wait_park(SharedWait& wait, int64_t deadline,
                                                       bool (*withdraw)(SharedWait& wait)) {
    Cord* home = wait.home;
    if (!home) return shared_wait_park_thread(wait, deadline, withdraw);
    if (shared_wait_is_over(wait)) return wait.result;
    park(*home, wait, deadline);
    return shared_wait_ended(wait);
}

// Makes the fiber of a completed wait runnable, on its own cord. If the wait has on_orphaned, keeps it in
// cord.shared.ended until the fiber runs: if the fiber never runs, the lock that the wait may have got is not lost.
inline void shared_wait_end(Cord& home, SharedWait* wait) {
    home.shared.count--;
    if (wait->on_orphaned) home.shared.ended.push_back(wait);
    wake(home, wait, wait->result);
}

// Completes a wait, from any thread, without any lock. The caller has stored the result, and is the only one that may
// complete the wait. (wait->fiber is null if the fiber has not parked yet, or the wait has its own receive().)
inline void shared_wait_complete(SharedWait* wait) {
    Cord* cord = this_cord;
    if (wait->home == cord && wait->fiber) [[likely]]
        return shared_wait_end(*cord, wait);
    shared_wait_complete_slowly(wait);
}

// Wakes a fiber up with a value: schedules a new fiber, queues a yielding one, gives a permit to one that runs, is
// queued or waits otherwise. Does nothing if the fiber is scheduled, woken or dead already.
void wake_up(Cord& cord, Fiber* fiber, void* value);

// Queues the calling fiber behind all runnable fibers, and lets them run. Ends in the switch itself.
inline int reschedule(Cord& cord, Fiber* me) {
    make_runnable(cord, me, State::queued, 0);
    if (--cord.sched.budget <= 0) [[unlikely]]
        return give_way_slowly(cord, me);
    Fiber* next = cord.sched.queue.front_of_some();
    if (next == me) [[unlikely]]
        return give_way_slowly(cord, me);
    return give_way_to(cord, me, next);
}

// Looks for messages, I/O and timers without waiting; the backend may answer without the kernel. Returns whether any
// deadline had come.
bool poll_now(Cord& cord);

// Sleeps until a fiber may be runnable, at most until the deadline; none is runnable now, and the calling fiber stays
// the current one. 0; -EDEADLK: no fiber will ever be runnable.
int sleep_until_runnable(Cord& cord, int64_t deadline);

// The time until which a cord that has nothing to run may sleep.
int64_t idle_until(Cord& cord);

// Nanoseconds that polls should lie apart while fibers keep the thread busy.
constexpr int64_t poll_period_ns = 50'000;

// The deadline that lies duration_ns from now, or `never` if that overflows. cord: the cord whose timers will have it.
int64_t deadline_after(Cord& cord, int64_t duration_ns);

} // namespace fiberrt
