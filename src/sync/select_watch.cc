// SPDX-License-Identifier: MIT OR Apache-2.0
// The cases of a select that are joins, descriptors and scopes: tries them, and watches them.
// fuzz: waiting 60 %
#include "sync/select_watch.h"

#include "base/keep_errno.h"
#include "core/attr.h"
#include "core/children.h"
#include "core/handles.h"

#include <poll.h>

namespace fiberrt {

namespace {

// Joins a fiber of this cord if it has ended. A fiber of another cord must be watched.
int64_t try_join(Caller caller, fiber_case_t& what) {
    Fiber* target;
    int where = find(what.fiber, &target);
    if (where < 0) return where;
    if (where == elsewhere) return not_yet;
    if (is_detached(target)) return error_of_detached(target);
    if (target == caller.fiber) return -EDEADLK;
    return target->sched.state == State::dead ? join_dead(*caller.cord, target, &what.value) : not_yet;
}

int64_t try_descriptor(const fiber_case_t& what) {
    if (what.fd < 0) return -EBADF; // poll ignores negative descriptors
    KeepErrno keep;
    pollfd look = {what.fd, short(what.number), 0};
    if (poll(&look, 1, 0) <= 0) return not_yet;
    if (look.revents & POLLNVAL) return -EBADF;
    int events = look.revents & (int(what.number) | POLLERR | POLLHUP);
    return events ? events : not_yet;
}

// Takes the next ended child of a scope of the calling fiber.
int64_t try_scope(Caller caller, fiber_case_t& what) {
    Scope* scope;
    if (int error = own_scope(what.scope, &scope)) return error;
    int told = children_take(*caller.cord, scope, &what.fiber.id, &what.number);
    return told == -EAGAIN ? not_yet : told;
}

bool watch_claims(EndWait* shared) {
    auto* watch = static_cast<Watch*>(shared);
    auto* wait = static_cast<SyncWait*>(watch->select_wait);
    if (!wait->claim()) return false;
    wait->selected = watch->waiter;
    return true;
}

void watch_ended(Watch* watch, int64_t result) {
    if (watch_claims(watch)) end_wait_complete(watch, result);
}

int begin_helper(Cord& cord, Watch& watch, void* (*await_descriptor)(void* fiber_case)) {
    Fiber* helper;
    int error = fiber_create(cord, Kind::helper, &helper);
    if (error) return error;
    helper->call.fn = await_descriptor;
    helper->call.arg = watch.what;
    helper->stack_class = fiber_attr().stack_class;
    helper->sched.state = State::scheduled;
    cord.sched.queue.push(helper);
    watch.target = watch.helper = helper;
    return join_watch(cord, helper, id_generation(fibers.id_of(helper)), watch);
}

// Cancels a helper and waits for its end. Nothing ends this wait early, because the helper uses the case until it ends.
void end_helper(Cord& cord, Fiber* helper) {
    note_reason(helper, nullptr);
    cancel(cord, helper);
    if (helper->sched.state == State::dead) return fiber_free(cord, helper);
    JoinWait ended;
    ended.target = helper;
    ended.what = WaitFor::select;
    helper->joiners.push_back(&ended);
    park(cord, ended);
}

int begin_join(Cord& cord, Watch& watch) {
    fiber_t handle = watch.what->fiber;
    Fiber* target;
    int where = find(handle, &target);
    if (where < 0) return where;
    if (where != elsewhere &&
        target->sched.state == State::dead) { // it has ended since the try, by a message that came for another case
        // coverage: race
        if (watch_claims(&watch)) end_wait_complete(&watch, join_dead(cord, target, &watch.value));
        return 0;
    }
    watch.target = target;
    int error = join_watch(cord, target, id_generation(handle.id), watch);
    if (error) watch.target = nullptr;
    return error;
}

int begin_scope(Watch& watch) {
    if (int error = own_scope(watch.what->scope, &watch.scope)) return error;
    if (!children_watch(watch.scope, watch)) watch_ended(&watch, 0); // a child has ended; select_store_watched takes it
    return 0;
}

int begin_watch(SelectWait& wait, Watch& watch) {
    Cord& cord = *wait.home;
    switch (watch.what->kind) {
    case FIBER_CASE_JOIN: return begin_join(cord, watch);
    case FIBER_CASE_FD: return begin_helper(cord, watch, wait.await_descriptor);
    default: return begin_scope(watch);
    }
}

void unwatch_targets(SyncWait& base) {
    auto& wait = static_cast<SelectWait&>(base);
    for (uint32_t i = 0; i < wait.count; i++) {
        Watch& watch = wait.watches[i];
        if (watch.target) join_unwatch(watch.target, watch);
        watch.target = nullptr;
        if (watch.scope) children_unwatch(watch.scope, watch);
        watch.scope = nullptr;
    }
}

} // namespace

int64_t select_try_watched(Caller caller, fiber_case_t& what) {
    switch (what.kind) {
    case FIBER_CASE_JOIN: return try_join(caller, what);
    case FIBER_CASE_FD: return try_descriptor(what);
    default: return try_scope(caller, what);
    }
}

void select_begin_watches(SelectWait& wait) {
    wait.end_watches = unwatch_targets;
    for (uint32_t i = 0; i < wait.count && !wait.is_claimed(); i++) {
        Watch& watch = wait.watches[i];
        if (!is_watched(*watch.what)) continue;
        watch.select_wait = &wait;
        watch.claim = watch_claims;
        if (int error = begin_watch(wait, watch)) watch_ended(&watch, error);
    }
}

// While the fiber is parked here, its wait is in `woken`: if the thread ends, the item or permit that it was given is
// passed on.
void select_end_helpers(SelectWait& wait) {
    for (uint32_t i = 0; i < wait.count; i++) {
        Fiber* helper = wait.watches[i].helper;
        if (!helper || wait.selected == &wait.waiters[i]) continue;
        wait.home->shared.ended.push_back(&wait);
        end_helper(*wait.home, helper);
        wait.home->shared.ended.remove(&wait);
    }
}

void select_store_watched(Caller caller, fiber_case_t& what, const Watch& watch) {
    what.result = watch.result;
    if (watch.result) return;
    if (what.kind == FIBER_CASE_JOIN) what.value = watch.value;
    if (watch.helper) what.result = intptr_t(watch.value);
    if (what.kind == FIBER_CASE_SCOPE) what.result = try_scope(caller, what);
}

} // namespace fiberrt
