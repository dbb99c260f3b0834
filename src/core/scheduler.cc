// SPDX-License-Identifier: MIT OR Apache-2.0
// The scheduler's slower half: first runs, polling, sleeping, timers, fibers that wait for a stack, and wake_up.
// fuzz: switch 85 %
#include "core/scheduler.h"

#include "base/check.h"
#include "base/keep_errno.h"
#include "base/one_thread.h"
#include "base/planted.h"
#include "core/hooks.h"
#include "core/life.h"
#include "core/noted_frame.h"
#include "core/probes.h"
#include "core/environment.h"
#include "core/backend.h"

namespace fiberrt {

namespace {

// The most switches between two polls. Fibers whose turns were short may begin to take long ones.
constexpr int64_t poll_interval_most = 256;

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

bool every_switch_slowly(const Cord& cord) { return environment || cord.hooked; }

void set_budget(Cord& cord, int64_t switches) {
    cord.counters.gave_way += uint64_t(cord.poll.full_budget - cord.sched.budget);
    cord.poll.full_budget = cord.sched.budget = every_switch_slowly(cord) ? 0 : switches;
    cord.poll.hooked_budget = switches;
    if (cord.poll.hooks_only_above != INT64_MAX) cord.poll.hooks_only_above = -switches;
}

// How many switches are left until the next poll. Where every switch is slow, more than one may have been charged to
// the budget since the last look: fibers without a stack do operations at once.
int64_t budget_left(const Cord& cord) {
    return every_switch_slowly(cord) ? cord.poll.hooked_budget - (cord.poll.full_budget - cord.sched.budget)
                                     : cord.sched.budget;
}

// Whether the next poll is due, after the caller has taken one from the budget.
bool poll_due(Cord& cord) {
    if (!every_switch_slowly(cord)) return cord.sched.budget <= 0;
    if (environment) environment->before_switch(cord);
    set_budget(cord, budget_left(cord));
    return cord.poll.hooked_budget <= 0;
}

bool fire_timers(Cord& cord, int64_t now);

// Tells the recorder of a poll. The poll itself may turn the recorder on or off.
class RecordedPoll {
public:
    explicit RecordedPoll(Cord& cord) : cord_(cord) {
        probes_look();
        if (cord.hooked & hooked_by_recorder) cord.recorder.ops->poll_begins(cord);
    }
    ~RecordedPoll() {
        if (cord_.hooked & hooked_by_recorder) cord_.recorder.ops->poll_ends(cord_);
    }
    RecordedPoll(const RecordedPoll&) = delete;
    RecordedPoll& operator=(const RecordedPoll&) = delete;

private:
    Cord& cord_;
};

// Looks for messages, I/O (the backend may answer without the kernel) and timers, without waiting. now: the time. True:
// deadlines had come.
bool poll_at(Cord& cord, int64_t now) {
    KeepErrno keep;
    cord.counters.polls++;
    RecordedPoll recorded(cord);
    bool later = receive_all(cord);
    if (cord.io && cord.io->backend->poll(cord.io->state, poll_only, false)) later = true;
    if (later) now = clock_now(); // completions are reaped before timers fire: completion beats timeout
    bool fired = fire_timers(cord, now);
    cord.stacks.trim(now);
    cord.poll.last_ns = now;
    cord.stack_in_use.hooked_from = nullptr; // that switch is over
    set_budget(cord, cord.poll.interval);
    if (cord.work) cord.work->ops->tick(cord);
    return fired;
}

// Polls after a whole interval of switches, and sets the next interval: as many switches as should take poll_period_ns.
// The time of the poll itself, which may be long when it hands work to the kernel, does not count.
void poll_and_adapt(Cord& cord) {
    int64_t now = clock_now();
    int64_t elapsed = now > cord.poll.last_ns ? now - cord.poll.last_ns : 1;
    poll_at(cord, now);
    int64_t fitting = cord.poll.interval * poll_period_ns / elapsed;
    // Doubled at most, so that one quick stretch does not buy a long slow one.
    int64_t most = cord.poll.interval * 2 < poll_interval_most ? cord.poll.interval * 2 : poll_interval_most;
    cord.poll.interval = fitting < 1 ? 1 : fitting > most ? most : fitting;
    if (environment) cord.poll.interval = environment->poll_interval();
    set_budget(cord, cord.poll.interval);
}

void deadline_reached(Cord& cord, Fiber* fiber, int64_t now) {
    bool own = fiber->timeout.deadline <= now;
    if (own) fiber->timeout.deadline = never;
    bool parent = false;
    each_counting_scope(fiber->scopes, [&](Scope* s) {
        if (s->deadline <= now) s->stopped |= pending_timeout;
        parent |= s->has_children;
    });
    pending_update(cord, fiber); // and arms the timer for what remains
    if (own && fiber->sched.state == State::waiting && fiber->wait->on_deadline == 0) {
        wake(fiber->wait, 0);
    } else if (own || (fiber->sched.pending & pending_timeout)) { // else only children of the fiber are stopped
        stop(cord, fiber, -ETIMEDOUT);
    }
    if (parent) scopes_stop_children(cord, fiber);
}

// In the simulation, timers of the same time fire in any order: by real clocks no two times are the same.
bool fire_timers_in_some_order(Cord& cord, int64_t now) {
    constexpr unsigned most = 32;
    Fiber* due[most];
    int64_t deadlines[most];
    unsigned count;
    bool any = false;
    do {
        count = 0;
        while (Timer* timer = count < most ? cord.timers.expired(now, &deadlines[count]) : nullptr) {
            due[count++] = fiber_of(timer);
        }
        for (unsigned first = 0, end; first < count; first = end) {
            for (end = first + 1; end < count && deadlines[end] == deadlines[first];) end++;
            environment->order(due + first, end - first);
        }
        for (unsigned i = 0; i < count; i++) deadline_reached(cord, due[i], now);
        any |= count;
    } while (count == most);
    return any;
}

// Fires all timers that are due, and returns whether there were any. Fires many at a time, and first fetches their
// Waits together: these lie on stacks that have long been out of every cache. (Firing one may end the waits of other
// fibers in the batch. These are then queued, which stop() leaves alone, and none is freed.)
bool fire_timers(Cord& cord, int64_t now) {
    constexpr unsigned most = 32;
    Fiber* due[most];
    bool any = false;
    if (environment) return fire_timers_in_some_order(cord, now);
    for (;;) {
        unsigned count = 0;
        while (Timer* timer = count < most ? cord.timers.expired(now) : nullptr) due[count++] = fiber_of(timer);
        for (unsigned i = 0; i < count; i++) __builtin_prefetch(due[i]->wait, 1); // harmless if it is no pointer
        for (unsigned i = 0; i < count; i++) deadline_reached(cord, due[i], now);
        any |= count;
        if (count < most) return any;
    }
}

bool work_starved(const Cord& cord) { return cord.work && cord.work->ops->starved(cord); }

// Whether no fiber can ever become runnable: no operation is under way, no timer is armed, and no other thread could
// wake a fiber. In the simulation operations that can never be done do not count.
bool dead_locked(Cord& cord) {
    if (work_starved(cord)) return false; // it tries again, and may find memory then
    if (environment) return cord.timers.next() == never && environment->stuck(cord);
    return (!cord.io || cord.io->in_flight == 0) && cord.timers.next() == never && one_thread() &&
           !cord.inbox.has_message(); // that a thread left which has just ended
}

// How long to wait before the next try, if there was no memory for a fiber to do the cord's work.
constexpr int64_t starved_ns = 1'000'000;

// Sleeps until a fiber may be runnable, or until at_most; none is runnable now.
[[gnu::noinline]] void poll_and_wait(Cord& cord, int64_t at_most) {
    __builtin_unwind_init();
    FIBERRT_HERE(here);
    NotedFrame noted(cord, &&here, __builtin_dwarf_cfa());
    KeepErrno keep;
    RecordedPoll recorded(cord);
    if (cord.work && cord.work->ops->idle(cord)) return;
    if (cord.main_flow.ends_process && cord.counts.live == 0) return end_process(cord);
    cord.counters.polls++;
    cord.stacks.trim(cord.poll.last_ns);
    if (at_most == never && dead_locked(cord)) {
        FIBERRT_CHECK(cord.main_flow.fiber->sched.state != State::running);
        stop(cord, cord.main_flow.fiber, -EDEADLK);
        if (!cord.sched.queue.empty()) {
            if (cord.work) cord.work->ops->busy(cord);
            return;
        }
    }
    int64_t deadline = min(idle_until(cord), at_most);
    // False: a message made a fiber runnable at once, and sleep() did not look at the rest.
    bool polled = sleep(cord, deadline);
    if (cord.work) cord.work->ops->busy(cord);
    if (!polled) return; // without a new budget: the next regular poll comes as if there had been no wait
    int64_t now = clock_now();
    if (fire_timers(cord, now)) cord.coalescing.note_wake(now);
    cord.stacks.trim(now);
    cord.poll.last_ns = now;
    set_budget(cord, cord.poll.interval);
}

// The stacks in use that may be given back: the executor keeps its stack.
uint64_t stacks_in_use(const Cord& cord) { return cord.stacks.in_use() - (cord.executor.fiber != nullptr); }

// before: the fiber in front of it in the list, null if it is the first.
void awaiting_stack_take_out(Cord& cord, Fiber* before, Fiber* fiber) {
    (before ? before->next_free : cord.awaiting_stack.first) = fiber->next_free;
    if (cord.awaiting_stack.last == fiber) cord.awaiting_stack.last = before;
}

// Takes the next fiber off the run queue that can continue or, with the stack that this takes for it, start.
Fiber* next_to_run(Cord& cord) {
    for (;;) {
        Fiber* fiber = cord.sched.queue.pop();
        if (!fiber) {
            poll_and_wait(cord, never);
        } else if (!fiber->uses_stack()) {
            if (Fiber* executor = cord.executor.ops->dispatch(cord, fiber)) return executor;
        } else if (fiber->sched.state != State::scheduled) {
            return fiber;
        } else if (fiber->requests.cancelled) {
            uint8_t stack_class = fiber->stack_class;
            end_unrun(cord, fiber, FIBER_CANCELLED, 0);
            offer_stack(cord, stack_class);                        // a stack of this class may have been offered to it,
            offer_stack(cord, StackPool::other_kind(stack_class)); // or of this one
        } else if (!(environment && environment->refuses(Resource::stack)) && stack_take(cord, fiber)) {
            return fiber;
        } else if (stacks_in_use(cord) == 0 || fiber->life.kind == Kind::helper) {
            end_unrun(cord, fiber, nullptr, -EAGAIN);
        } else {
            fiber->sched.state = State::awaiting_stack;
            fiber->next_free = nullptr;
            (cord.awaiting_stack.first ? cord.awaiting_stack.last->next_free : cord.awaiting_stack.first) = fiber;
            cord.awaiting_stack.last = fiber;
            if (fiber->life.kind == Kind::task_fiber) cord.work->ops->waits_for_stack(cord);
        }
    }
}

// The address where the first frame of a new fiber begins, on the stack that was taken for it. (Always inlined, as a call
// takes longer than the two instructions.)
[[gnu::always_inline]] inline char* first_frame(const Fiber* fiber) {
    return StackPool::top(fiber->stack_class, fiber->stack_low) - fiber->stack_reserve;
}

int switch_to(Cord& cord, Fiber* me, Fiber* next) {
    FIBERRT_CHECK(!holds_spin_lock());
    if (me && !cord.hooked) {
        next->sched.state = State::running;
        return fiberrt_switch(&cord, next, me);
    }
    record_switch(cord, me, next);
    next->sched.state = State::running;
    cord.stack_in_use.hooked_from = me;
    cord.sched.current = next;
    return cord.hooked ? hooks::switch_hooked(cord, me, next) : fiberrt_leave(&cord, next);
}

} // namespace

int64_t deadline_after(Cord& cord, int64_t duration_ns) {
    int64_t deadline;
    if (duration_ns == FIBER_FOREVER || __builtin_add_overflow(clock_now(), duration_ns, &deadline)) return never;
    cord.coalescing.note_deadline(deadline, duration_ns);
    return deadline;
}

// If no stack is in use any more, all waiting fibers try again: a fiber that finds no stack then never will, and ends.
void offer_stack(Cord& cord, uint8_t stack_class) {
    bool all = stacks_in_use(cord) == 0;
    Fiber* before = nullptr;
    Fiber* fiber = cord.awaiting_stack.first;
    while (fiber) {
        Fiber* after = fiber->next_free;
        if (all || StackPool::serves(stack_class, fiber->stack_class)) {
            awaiting_stack_take_out(cord, before, fiber);
            fiber->sched.state = State::scheduled;
            cord.sched.queue.push(fiber);
            if (!all) return;
        } else {
            before = fiber;
        }
        fiber = after;
    }
}

void awaiting_stack_remove(Cord& cord, Fiber* fiber) {
    Fiber* before = nullptr;
    for (Fiber* at = cord.awaiting_stack.first; at != fiber; at = at->next_free) before = at;
    awaiting_stack_take_out(cord, before, fiber);
}

bool poll_now(Cord& cord) { return poll_at(cord, clock_now()); }

int sleep_until_runnable(Cord& cord, int64_t deadline) {
    if (deadline == never && dead_locked(cord)) return -EDEADLK;
    poll_and_wait(cord, deadline);
    return 0;
}

int64_t idle_until(Cord& cord) {
    int64_t deadline = cord.coalescing.wake_at(cord.timers.next());
    if (work_starved(cord)) deadline = min(deadline, clock_now() + starved_ns);
    return min(cord.stacks.trim_due(), deadline);
}

[[gnu::noinline]] static int give_way_in_full(Cord& cord, Fiber* me) {
    if (poll_due(cord)) poll_and_adapt(cord);
    Fiber* next = next_to_run(cord);
    if (next == me) {
        cord.counters.instant_resumes++;
        if (cord.hooked & hooked_by_recorder) cord.recorder.ops->resumed(cord, me);
        me->sched.resume_instantly();
        return me->resume;
    }
    return next->sched.state == State::scheduled ? give_to_new(cord, me, next) : switch_to(cord, me, next);
}

int give_way_slowly(Cord& cord, Fiber* me) {
    if (cord.sched.budget <= cord.poll.hooks_only_above || cord.sched.queue.empty()) [[unlikely]]
        return give_way_in_full(cord, me);
    Fiber* next = cord.sched.queue.front_of_some();
    if (next == me || !next->sp) [[unlikely]]
        return give_way_in_full(cord, me);
    cord.sched.queue.pop_front();
    cord.sched.queue.prefetch();
    return cord.poll.make_switch(cord, me, next);
}

int give_way_to_new(Cord& cord, Fiber* me) {
    Fiber* next = cord.sched.queue.front();
    if (next->requests.cancelled || !stack_take(cord, next)) [[unlikely]]
        return give_way_slowly(cord, me);
    cord.sched.queue.pop();
    next->sched.state = State::running;
    char* top = first_frame(next);
    return fiberrt_start(&cord, next, me, top, next->call.fn, next->call.arg);
}

void poll_if_due(Cord& cord) {
    cord.sched.budget--;
    poll_if_used_up(cord);
}

void charge_and_poll(Cord& cord) {
    if (charge_makes_poll_due(cord)) [[unlikely]]
        poll_and_give_way(cord);
}

// A fiber without a stack does not poll here: its executor looks at the budget.
bool poll_due_by_now(Cord& cord) { return cord.sched.current->uses_stack() && poll_due(cord); }

void poll_if_used_up(Cord& cord) {
    if (poll_due(cord)) poll_and_adapt(cord);
}

void set_hooked(Cord& cord, uint8_t hooked) {
    int64_t left = budget_left(cord);
    cord.hooked = hooked;
    bool plainly = hooked && !(hooked & hooked_by_sanitizer) && !environment;
    cord.poll.hooks_only_above = plainly ? 0 : INT64_MAX;
    if (hooked & hooked_by_recorder) {
        cord.poll.make_switch = cord.recorder.ops->make_switch;
    } else if (hooked & hooked_by_any_user) {
        cord.poll.make_switch = cord.observer.ops->make_switch;
    }
    set_budget(cord, left);
}

bool budget_spent(const Cord& cord) { return budget_left(cord) <= 0; }

void poll_and_give_way(Cord& cord) {
    poll_and_adapt(cord);
    if (cord.sched.queue.empty()) return;
    Fiber* me = cord.sched.current;
    make_runnable(cord, me, State::queued, 0);
    give_way(cord, me);
}

int give_to(Cord& cord, Fiber* me, Fiber* next) { return switch_to(cord, me, next); }

int give_to_new(Cord& cord, Fiber* me, Fiber* next) {
    FIBERRT_CHECK(!holds_spin_lock());
    next->sched.state = State::running;
    char* top = first_frame(next);
    if (me && !cord.hooked) return fiberrt_start(&cord, next, me, top, next->call.fn, next->call.arg);
    record_switch(cord, me, next);
    cord.stack_in_use.hooked_from = me;
    cord.sched.current = next;
    return cord.hooked ? hooks::start_hooked(cord, me, next, top)
                       : fiberrt_leave_start(&cord, next, top, next->call.fn, next->call.arg);
}

int leave_slowly(Cord& cord, Fiber* next) {
    cord.sched.current = nullptr;
    if (next) next->sched.state = State::queued; // no longer transferring: the poll must not wake or stop it
    poll_if_due(cord);
    if (!next) next = next_to_run(cord);
    return next->sched.state == State::scheduled ? give_to_new(cord, nullptr, next) : switch_to(cord, nullptr, next);
}

void wake(Wait* wait, int64_t result) { wake(*this_cord, wait, result); }

void stop_at_once(Wait* wait, int reason) { wake(wait, reason); }

void wake_up(Cord& cord, Fiber* fiber, void* value) {
    switch (fiber->sched.state) {
    case State::created:
        fiber->sched.state = State::scheduled;
        cord.sched.queue.push(fiber);
        break;
    case State::yielding:
        fiber->call.wakeup_value = value;
        if (fiber->timeout.deadline != never) wait_deadline_set(cord, fiber, never);
        make_runnable(cord, fiber, State::woken, 0);
        break;
    case State::scheduled:
    case State::awaiting_stack:
    case State::woken:
    case State::dead: break;
    case State::running:
    case State::queued:
    case State::transferring:
    case State::waiting:
    case State::offered:
    case State::handed_out:
        if (PLANTED(a_lost_wake) && fiber->sched.state == State::queued) break;
        if (PLANTED(wakeup_in_a_transfer_is_lost) && fiber->sched.state == State::transferring) break;
        if (fiber->sched.permit) break;
        fiber->sched.permit = true;
        fiber->call.wakeup_value = value;
        break;
    }
}

} // namespace fiberrt
