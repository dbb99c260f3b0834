// SPDX-License-Identifier: MIT OR Apache-2.0
// The children of a scope: how they enter it, how their ends reach the owner's cord, and what the cord then does.
// fuzz: waiting 65 %
#include "core/children.h"

#include "base/planted.h"
#include "core/cord.h"
#include "core/life.h"
#include "core/noswitch.h"
#include "core/remote_requests.h"
#include "core/scheduler.h"

#include <initializer_list>

namespace fiberrt {

constinit SlotTable<Child, Tag::child> child_records;

namespace {

void record_free(Cord& cord, Child* child) {
    child_records.end_use(child);
    child_records.give_back(cord.free.children, child);
}

// Cancels a fiber of any cord.
void fiber_cancel_by_id(Cord& cord, uint64_t id, void* reason) {
    Fiber* fiber;
    if (fibers.resolve(id, &fiber) < 0) return;
    if (fiber->cord.load(std::memory_order_acquire) != &cord) { // acquire: it is seen as made
        cancel_elsewhere(fiber, id_generation(id), reason);
    } else if (fiber->sched.state != State::dead) {
        note_reason(fiber, reason);
        cancel(cord, fiber);
    }
}

// Detaches a fiber of any cord.
void fiber_detach_by_id(Cord& cord, uint64_t id) {
    Fiber* fiber;
    if (fibers.resolve(id, &fiber) < 0) return;
    if (fiber->cord.load(std::memory_order_acquire) != &cord) {
        detach_elsewhere(fiber, id_generation(id));
    } else if (note_detach(fiber)) {
        detach(cord, fiber);
    }
}

// Under the scope's lock.

void remove_from_list(Child* child) {
    Children& all = child->scope->children;
    (child->cancelled ? all.cancelled : all.running).remove(child);
    if (!child->unreported) all.awaited--;
}

// The result that the scope reports for a child's end.
int64_t result_of(const Child::End& end) {
    if (end.result < 0) return end.result; // it could not run, or its thread has gone
    return end.unrun ? -ECANCELED : int64_t(reinterpret_cast<intptr_t>(end.value));
}

void waiter_wake(Cord& cord, Children& all, int64_t result) {
    ChildrenWait* waiter = all.waiter;
    all.waiter = nullptr;
    wake(cord, waiter, result);
}

// Tells a select that an end has arrived. The end stays until the fiber, which alone may take it, continues.
void complete_watch(Children& all) {
    EndWait* watch = all.watch;
    all.watch = nullptr;
    if (watch->claim(watch)) end_wait_complete(watch, 0);
}

constexpr int64_t withdrawn = INT64_MIN; // as a result: it has not been a child after all

// A child's end arrives at the owner's cord.
void child_ended(Cord& cord, Message* message) {
    Child* child = static_cast<Child::End*>(static_cast<EndWait*>(message))->child;
    Scope* scope = child->scope;
    if (!scope) {
        cord.shared.count--;
        record_free(cord, child);
        return;
    }
    Children& all = scope->children;
    bool none;
    {
        Locked locked(scope->lock);
        remove_from_list(child);
        none = none_left(all);
    }
    if (child->end.result == withdrawn) {
        record_free(cord, child);
        if (all.waiter && (none || !all.waiter->for_all)) waiter_wake(cord, all, 0); // to look again
        if (all.watch && none) complete_watch(all);                                  // else there is nothing to tell
        return;
    }
    child->result = result_of(child->end);
    bool obeyed = child->cancelled && child->result == -ECANCELED; // neither a success nor a failure
    bool failed = child->result < 0 && !obeyed;
    if (failed && !all.failed) {
        all.failed = true;
        all.failure = child->result;
    }
    bool last = scope->flags & FIBER_SCOPE_FIRST ? child->result >= 0 : failed && !(scope->flags & FIBER_SCOPE_COLLECT);
    bool reported = !child->unreported;
    reported ? all.ended.push_back(child) : record_free(cord, child);
    if (all.waiter && (all.waiter->for_all ? none : reported)) waiter_wake(cord, all, 0);
    if (!PLANTED(select_misses_the_end_of_a_child) && all.watch && reported) complete_watch(all);
    if (last) children_cancel(cord, scope, nullptr);
}

// Prepares a scope for its first child; called on the owner's cord.
void children_found(Cord& cord, Scope* scope, Fiber* owner) {
    Children& all = scope->children;
    all.home = &cord;
    all.failed = false;
    all.failure = 0;
    all.waiter = nullptr;
    all.watch = nullptr;
    all.due = false;
    scope->has_children = true;
    cord.children.parents++;
    {
        Locked locked(scope->lock);
        all.closed = false;
        all.stopped = scope_stopped(owner, scope, &all.reason);
        all.awaited = 0;
        all.generation = scope->generation.load(std::memory_order_relaxed);
    }
    pending_update(cord, owner); // deadlines outside of a shield may count now
}

void stop_next(Wait* base, int reason) {
    auto* wait = static_cast<ChildrenWait*>(base);
    wait->scope->children.waiter = nullptr;
    wake(wait, reason);
}

void stop_close(Wait* wait, int reason) {
    if (reason == -EDEADLK) stop_next(wait, reason);
}

int children_wait(Cord& cord, Scope* scope, bool for_all) {
    ChildrenWait wait;
    wait.stop = for_all ? stop_close : stop_next;
    wait.what = WaitFor::children;
    wait.scope = scope;
    wait.for_all = for_all;
    scope->children.waiter = &wait;
    return int(park(cord, wait));
}

// Takes a child out of a list, under the lock. A task that is not settled is left to the fiber that would run it.
Child* take_from(Scope* scope, ShortList<Child>& list) { // coverage: race
    Locked locked(scope->lock);
    for (;;) {
        Child* child = list.pop_front();
        if (!child || child->settled) return child;
        child->discarded = true;
    }
}

// Cancels the running children, all for the reason that the scope was first stopped for.
void cancel_running(Cord& cord, Scope* scope) {
    Children& all = scope->children;
    for (;;) {
        uint64_t id;
        void* reason;
        {
            Locked locked(scope->lock);
            Child* child = all.running.pop_front();
            if (!child) return;
            child->cancelled = true;
            all.cancelled.push_back(child);
            id = child->fiber;
            reason = all.reason;
        }
        fiber_cancel_by_id(cord, id, reason); // without the lock: it may ring, and the child's end may come at once
    }
}

void child_discard(Cord& cord, Child* child) {
    Fiber* fiber = fibers.at(id_index(child->fiber)); // or the fiber that has its slot by now
    uint64_t id = child->fiber;
    bool cancelled = child->cancelled;
    if (join_unwatch(fiber, child->end)) {
        record_free(cord, child);
        fiber_detach_by_id(cord, id); // else its slot would stay until it is joined
    } else {                          // its end is on its way
        child->scope = nullptr;
        cord.shared.count++;
    }
    if (!cancelled) fiber_cancel_by_id(cord, id, nullptr);
}

} // namespace

int children_open(Cord& here, Scope* scope, uint32_t generation) {
    {
        Locked locked(scope->lock);
        if (scope->generation.load(std::memory_order_relaxed) != generation) return -ESRCH;
        const Children& all = scope->children;
        if (all.generation == generation) return all.closed ? -ESRCH : 0;
    }
    Fiber* owner = scope->fiber.load(std::memory_order_relaxed);
    if (!owner || owner->cord.load(std::memory_order_relaxed) != &here || !scope_is_of(scope, owner)) return -EPERM;
    if (here.inbox.is_closed()) return -EPIPE; // its thread ends: no child's end could arrive
    children_found(here, scope, owner);
    return 0;
}

void child_begin_task(Child* child, Scope* scope, bool unreported) {
    Child::End& end = child->end;
    end.child = child;
    end.receive = child_ended;
    end.value = nullptr;
    end.result = 0;
    end.unrun = false;
    child->scope = scope;
    child->fiber = 0;
    child->cancelled = false;
    child->unreported = unreported;
    child->settled = child->discarded = false;
}

void child_begin(Child* child, Scope* scope, Fiber* fiber, bool unreported) {
    child_begin_task(child, scope, unreported);
    child->fiber = fibers.id_of(fiber);
    child->settled = true;
    join_watch_new(fiber, child->end);
}

namespace {

enum class Fate : uint8_t { runs, cancelled, discarded };

// Decides whether a task runs as the fiber `me`; with null it does not. (Another scope may have the record by now, but
// the record is never unmapped.)
Fate settle(Child* child, Fiber* me) {
    Locked locked(child->scope->lock);
    if (child->discarded) return Fate::discarded;
    child->settled = true;
    if (child->cancelled) return Fate::cancelled;
    if (me) {
        join_watch_new(me, child->end); // before the scope can find the fiber that runs it
        child->fiber = fibers.id_of(me);
    }
    return Fate::runs;
}

void end_without_run(Cord& cord, Child* child, Fate fate, int64_t result) { // coverage: no memory
    if (fate == Fate::discarded) {
        record_free(cord, child);
    } else {
        end_wait_complete(&child->end, result);
    }
}

} // namespace

namespace {

void never_begins(Cord& cord, Child* child, Fate fate, int64_t result) {
    if (child->free_arg) arg_free(cord, child->free_arg, child->arg); // before the scope may end
    end_without_run(cord, child, fate, result);
}

} // namespace

bool child_begins(Cord& cord, Child* child, Fiber* me) {
    Fate fate = settle(child, me);
    if (fate == Fate::runs) return true;
    never_begins(cord, child, fate, -ECANCELED);
    return false;
}

void child_never_begins(Cord& cord, Child* child, int64_t error) {
    never_begins(cord, child, settle(child, nullptr), error);
}

void child_withdraw(Cord& cord, Child* child) { end_without_run(cord, child, settle(child, nullptr), withdrawn); }

int child_enter(Child* child, uint32_t generation, void** reason) {
    Scope* scope = child->scope;
    Children& all = scope->children;
    {
        Locked locked(scope->lock);
        if (scope->generation.load(std::memory_order_relaxed) == generation && all.generation == generation &&
            !all.closed) {
            child->end.home = all.home;
            child->cancelled = all.stopped;
            (all.stopped ? all.cancelled : all.running).push_back(child);
            if (!child->unreported) all.awaited++;
            *reason = all.reason;
            return all.stopped;
        }
    }
    if (child->fiber) join_unwatch(fibers.at(id_index(child->fiber)), child->end);
    return -ESRCH;
}

void children_cancel(Cord& cord, Scope* scope, void* reason) {
    Children& all = scope->children;
    {
        Locked locked(scope->lock);
        if (!all.stopped) all.reason = reason;
        all.stopped = true;
        if (all.running.empty()) return;
    }
    if (!all.due) {
        all.due = true;
        all.next_due = cord.children.due;
        cord.children.due = scope;
    }
    if (cord.children.cancelling) return; // the outermost call does it, so that no stack need bear a chain of parents
    cord.children.cancelling = true;
    while (Scope* next = cord.children.due) {
        cord.children.due = next->children.next_due;
        next->children.due = false;
        cancel_running(cord, next);
    }
    cord.children.cancelling = false;
}

bool children_left(Scope* scope) {
    Locked locked(scope->lock);
    return !none_left(scope->children);
}

int children_await(Cord& cord, Scope* scope, bool may_wait) {
    Children& all = scope->children;
    for (;;) {
        {
            Locked locked(scope->lock);
            all.closed = none_left(all);
            if (all.closed) return 0;
        }
        if (!may_wait) {
            noswitch_refused();
            return -EPERM;
        }
        int error = children_wait(cord, scope, true);
        if (PLANTED(close_awaits_no_latecomer) || error) return error;
    }
}

int children_take(Cord& cord, Scope* scope, uint64_t* fiber, int64_t* result) {
    if (!scope->has_children) return 0;
    Children& all = scope->children;
    if (Child* child = all.ended.pop_front()) {
        *fiber = child->fiber;
        *result = child->result;
        record_free(cord, child);
        return 1;
    }
    Locked locked(scope->lock);
    return all.awaited ? -EAGAIN : 0;
}

int children_next(Cord& cord, Scope* scope, uint64_t* fiber, int64_t* result) {
    for (;;) {
        int taken = children_take(cord, scope, fiber, result);
        if (taken != -EAGAIN) return taken;
        if (int error = children_wait(cord, scope, false)) return error;
    }
}

bool children_watch(Scope* scope, EndWait& watch) {
    Children& all = scope->children;
    if (!all.ended.empty()) return false;
    if (!all.watch) all.watch = &watch;
    return true;
}

void children_unwatch(Scope* scope, EndWait& watch) {
    if (scope->children.watch == &watch) scope->children.watch = nullptr;
}

namespace {

// Marks a record in the list of ended children: it stays in use in the child of a fork.
void mark_ended(Child* child) { child->next_free = child; }
bool is_marked(const Child* child) { return child->next_free == child; }

void lose_all(Children& all) {
    all.running = {};
    all.cancelled = {};
    all.awaited = 0;
    all.waiter = nullptr;
    all.watch = nullptr;
    all.due = false;
    for (Child* child = all.ended.front(); child; child = all.ended.after(child)) mark_ended(child);
}

// Ends a child as if its thread had ended, but cancels no other child and does not stop the scope.
void lose(Children& all, Child* child) {
    if (!all.failed) all.failure = -EOWNERDEAD;
    all.failed = true;
    if (child->unreported) return;
    child->result = -EOWNERDEAD;
    child->prev = child->next = nullptr;
    all.ended.push_back(child);
    mark_ended(child);
}

} // namespace

// Other threads change the lists, so these cannot be relied on: finds the children by their records.
void children_forked(Fiber* me) {
    Scope* innermost = me ? me->scopes : nullptr;
    for (Scope* s = innermost; s; s = s->outer) {
        s->lock.reset();
        if (s->has_children) lose_all(s->children);
    }
    child_records.each([&](Child* child) {
        if (!(child->generation.load(std::memory_order_relaxed) & 1) || is_marked(child)) return;
        for (Scope* s = innermost; s; s = s->outer) {
            if (s == child->scope && s->has_children) lose(s->children, child);
        }
    });
    child_records.reclaim(
        [](Child* child) { return (child->generation.load(std::memory_order_relaxed) & 1) && is_marked(child); });
}

void children_discard(Cord& cord, Scope* scope) {
    Children& all = scope->children;
    {
        Locked locked(scope->lock);
        all.closed = true;
    }
    for (ShortList<Child>* list : {&all.running, &all.cancelled}) {
        while (Child* child = take_from(scope, *list)) child_discard(cord, child);
    }
    while (Child* child = all.ended.pop_front()) record_free(cord, child);
    all.waiter = nullptr;
    all.watch = nullptr;
    scope->has_children = false;
    cord.children.parents--;
}

Child* child_of(EndWait* wait) {
    return wait->receive == child_ended ? static_cast<Child::End*>(wait)->child : nullptr;
}

} // namespace fiberrt
