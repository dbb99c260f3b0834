// SPDX-License-Identifier: MIT OR Apache-2.0
// The relay: how a thread passes from fiber to fiber without a scheduler in between. A fiber that gives way takes the
// next one off the run queue and switches to it; if there is none, it polls, on its own stack, until there is one.
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

int give_way_slowly(Cord& cord, Fiber* me);
int give_way_to_new(Cord& cord, Fiber* me);

// Switches to the head of the queue. `me` is parked or queued already.
inline int give_way_to(Cord& cord, Fiber* me, Fiber* next) {
    FIBERRT_CHECK(!holds_spin_lock());
    if (!next->sp) [[unlikely]]
        return give_way_to_new(cord, me);
    cord.sched.queue.pop_front();
    cord.sched.queue.prefetch();
    next->sched.state = State::running;
    cord.sched.current = next;
    return fiberrt_switch(&cord, next, me);
}

// The end of every call that gives the thread away. `me` is parked or queued already. Returns, when it goes on,
// me->resume. Written so that a caller can end in a jump to the switch: then the switch returns to the user's code.
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

void poll_if_used_up(Cord& cord);                // the same when it has been counted
void hooked_changes(Cord& cord, uint8_t hooked); // who wants to hear of every switch; no poll is put off by that
bool turns_used_up(const Cord& cord);            // a poll is due at the next switch

// Counts what has been done at once as a switch, for others to have their turn in time.
inline void turn_counted(Cord& cord) {
    cord.counters.instant_resumes++; // no switch
    cord.sched.budget--;
}

// The same of what the calling fiber has done, and might have waited for: when a poll is due the others have their
// turn.
void turn_taken(Cord& cord);
// The same in two steps: whether a poll is due, and their turn.
bool turn_is_due_by_now(Cord& cord); // of a budget that is used up
inline bool turn_is_due(Cord& cord) {
    turn_counted(cord);
    return cord.sched.budget <= 0 && turn_is_due_by_now(cord);
}
void turn_give(Cord& cord);

// Gives the thread to a certain fiber, which is parked and not queued; `me` is parked or queued already.
int give_to(Cord& cord, Fiber* me, Fiber* next);

// Starts a fiber that is new, on a stack that the caller has taken for it. me null: what runs has ended.
int give_to_new(Cord& cord, Fiber* me, Fiber* next);

// Gives the thread away for good: to `next` if it is not null, else as give_way. It does not return, but must not be
// called as such: compilers call what does not return, and jump only to what might; and every call without a return
// lets the processor mispredict the returns that come after.
int leave_slowly(Cord& cord, Fiber* next);
inline int leave(Cord& cord, Fiber* heir) {
    Fiber* next = cord.sched.queue.front();
    if (!heir && cord.sched.budget > 1 && next && next->sp) [[likely]] {
        cord.sched.budget--;
        cord.sched.queue.pop();
        next->sched.state = State::running;
        cord.sched.current = next;
        return fiberrt_leave(&cord, next);
    }
    return leave_slowly(cord, heir);
}

// Takes a stack for a fiber's first run; false: there is none.
inline bool stack_take(Cord& cord, Fiber* fiber) {
    uint8_t stack_class = fiber->stack_class;
    fiber->stack_low = cord.stacks.take(stack_class);
    fiber->stack_class = stack_class;
    return fiber->stack_low;
}

// A stack of a class may be free: lets the first fiber that waits for such a one try again.
void offer_stack(Cord& cord, uint8_t stack_class);

inline void stack_give_back(Cord& cord, Fiber* fiber) {
    cord.stacks.give_back(fiber->stack_class, fiber->stack_low);
    fiber->stack_low = nullptr;
    if (cord.awaiting_stack.first) [[unlikely]]
        offer_stack(cord, fiber->stack_class);
}

// Takes a fiber out of the list of those that wait for a stack.
void awaiting_stack_remove(Cord& cord, Fiber* fiber);

// Arms the fiber's timer for its wait, or disarms that part with `never`.
void wait_deadline_set(Cord& cord, Fiber* fiber, int64_t deadline);

// Puts a parked fiber into the run queue. It goes on with `resume` as the result of the switch.
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
    make_runnable(cord, fiber, State::queued, result == -EINTR ? -EINTR : 0); // park() reads the wait, others this
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

// Makes a wait ready that another cord may end (core/shared_wait.h). `stop` is its way to leave what it will stand in.
// cord null: it is for a thread that has none.
inline void shared_wait_prepare(Cord* cord, SharedWait& wait, Wait::Stop stop) {
    wait.stop = stop;
    wait.on_deadline = -ETIMEDOUT;
    wait.receive = shared_wait_come_home;
    wait.home = cord;
    if (cord) cord->shared.count++;
}

// Whether the wait was completed by this thread since it was prepared: then its fiber need not wait.
inline bool shared_wait_is_over(SharedWait& wait) {
    if (!wait.answered.load(std::memory_order_relaxed)) return false;
    wait.home->shared.count--;
    return true;
}

// The fiber goes on after the wait: its result.
inline int64_t shared_wait_ended(SharedWait& wait) {
    if (wait.linked()) wait.home->shared.woken.remove(&wait);
    return wait.result;
}

// Waits until it is completed, or stopped. Of a thread without a cord, for which nobody calls `stop`: at the deadline,
// if leave() says that it has left its lists. (Always inlined: of a wait between fibers it is what takes the time.)
[[gnu::always_inline]] inline int64_t shared_wait_park(SharedWait& wait, int64_t deadline,
                                                       bool (*leave)(SharedWait& wait)) {
    Cord* home = wait.home;
    if (!home) return shared_wait_park_thread(wait, deadline, leave);
    if (shared_wait_is_over(wait)) return wait.result;
    park(*home, wait, deadline);
    return shared_wait_ended(wait);
}

// It has been completed, and that has come home: its fiber is made runnable, and until it runs what it was given must
// not be lost.
inline void shared_wait_end(Cord& home, SharedWait* wait) {
    home.shared.count--;
    if (wait->unwanted) home.shared.woken.push_back(wait);
    wake(home, wait, wait->result);
}

// Completes a wait that whoever calls this alone may complete. From any thread, without any lock. Its result is stored
// already. (A thread without a cord never has a fiber in its waits, nor has a wait with a way home of its own.)
inline void shared_wait_complete(SharedWait* wait) {
    Cord* cord = this_cord;
    if (wait->home == cord && wait->fiber) [[likely]]
        return shared_wait_end(*cord, wait);
    shared_wait_complete_slowly(wait);
}

// What a wakeup does; value is what it carries.
void wake_up(Cord& cord, Fiber* fiber, void* value);

// Queues the calling fiber behind all that are runnable, and lets them have their turn. Ends in the switch itself.
inline int take_turns(Cord& cord, Fiber* me) {
    make_runnable(cord, me, State::queued, 0);
    if (--cord.sched.budget <= 0) [[unlikely]]
        return give_way_slowly(cord, me);
    Fiber* next = cord.sched.queue.front_of_some();
    if (next == me) [[unlikely]]
        return give_way_slowly(cord, me);
    return give_way_to(cord, me, next);
}

// Looks for messages, I/O and timers without waiting; whether any deadline had come.
bool poll_now(Cord& cord);

// The calling fiber stays the one that runs, and nobody else is runnable: sleeps until somebody may be, at most until
// the deadline. 0; -EDEADLK: nobody ever will.
int wait_here(Cord& cord, int64_t deadline);

// When a cord that has nothing to run must look again.
int64_t idle_until(Cord& cord);

// Nanoseconds that polls should lie apart while fibers keep the thread busy.
constexpr int64_t poll_period_ns = 50'000;

// from now, saturating; never stays never. cord: whose timers it is for.
int64_t deadline_after(Cord& cord, int64_t duration_ns);

} // namespace fiberrt
