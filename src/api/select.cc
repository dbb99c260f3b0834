// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_select. The cases that are lists are those of sync/select; here are timers, joins, descriptors and scopes.
#include "sync/select.h"

#include "api/api.h"
#include "api/attr.h"
#include "base/keep_errno.h"
#include "core/life.h"

#include <new>
#include <poll.h>
#include <stdlib.h>

using namespace fiberrt;

namespace {

constexpr uint32_t few = 8; // cases, for which no memory is taken
constexpr int nobody = -1;
thread_local uint32_t plain_turn;      // of a thread without a cord; else Cord::select_turn
constexpr int64_t not_yet = INT64_MIN; // a case cannot be had; -EAGAIN can be the result of a join

// ---- A case by itself -----------------------------------------------------------------------------------------------

// A fiber of this cord that has ended; else it must be watched.
int64_t try_join(Caller caller, fiber_case_t& what) {
    Fiber* target;
    int where = find(what.fiber, &target);
    if (where < 0) return where;
    if (where == elsewhere) return not_yet;
    if (is_detached(target)) return error_of_detached(target);
    if (target == caller.fiber) return -EDEADLK;
    return target->state == State::dead ? join(*caller.cord, target, &what.value, never) : not_yet;
}

int64_t try_descriptor(const fiber_case_t& what) {
    if (what.fd < 0) return -EBADF; // which poll would pass over
    KeepErrno keep;
    pollfd look = {what.fd, short(what.number), 0};
    if (poll(&look, 1, 0) <= 0) return not_yet;
    if (look.revents & POLLNVAL) return -EBADF;
    int events = look.revents & (int(what.number) | POLLERR | POLLHUP);
    return events ? events : not_yet;
}

// One of the calling fiber's.
int64_t try_scope(Caller caller, fiber_case_t& what) {
    Scope* scope;
    if (int error = own_scope(what.scope, &scope)) return error;
    int told = children_take(*caller.cord, scope, &what.fiber.id, &what.number);
    return told == -EAGAIN ? not_yet : told;
}

int64_t try_one(Caller caller, fiber_case_t& what) {
    switch (what.kind) {
    case FIBER_CASE_NONE: return not_yet;
    case FIBER_CASE_TIMER: return what.number == 0 ? 0 : not_yet;
    case FIBER_CASE_JOIN: return try_join(caller, what);
    case FIBER_CASE_FD: return try_descriptor(what);
    case FIBER_CASE_SCOPE: return try_scope(caller, what);
    default: break;
    }
    int64_t result = select_try(what);
    return result == -EAGAIN ? not_yet : result;
}

int try_each(Caller caller, fiber_case_t* cases, uint32_t count, uint32_t begin) {
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = begin + n < count ? begin + n : begin + n - count;
        int64_t result = try_one(caller, cases[i]);
        if (result == not_yet) continue;
        cases[i].result = result;
        return int(i);
    }
    return nobody;
}

// The timer that comes before the timeout, or with it; the timeout becomes its own.
int earliest_timer(const fiber_case_t* cases, uint32_t count, int64_t* timeout_ns) {
    int timer = nobody;
    for (uint32_t i = 0; i < count; i++) {
        if (cases[i].kind != FIBER_CASE_TIMER || cases[i].number > *timeout_ns) continue;
        if (cases[i].number == *timeout_ns && timer != nobody) continue;
        *timeout_ns = cases[i].number;
        timer = int(i);
    }
    return timer;
}

// ---- Waiting for all ------------------------------------------------------------------------------------------------

// Not by a list of sync/. That is a fiber's affair.
bool is_watched(const fiber_case_t& what) {
    return what.kind == FIBER_CASE_JOIN || what.kind == FIBER_CASE_FD || what.kind == FIBER_CASE_SCOPE;
}

// What tells of a join or of a descriptor: a place in the list of those that wait for the end of a fiber. For a
// descriptor that is a helper, which waits for the descriptor and returns what that came to. A scope tells it that the
// end of a child has come.
struct Watch : EndWait {
    fiber_case_t* what = nullptr;
    Waiter* waiter = nullptr; // that is the winner, in no list
    Fiber* target = nullptr;  // while it is in the target's list
    Fiber* helper = nullptr;  // while it has not been joined
    Scope* scope = nullptr;   // that it may be known to
};

struct SelectWait : SyncWait {
    SelectWait(Waiter* waiters, uint32_t count, Watch* watches) : SyncWait(waiters, count), watches(watches) {}
    Watch* watches;       // as many as waiters
    void* heap = nullptr; // in which they are, if it was taken
};

void free_heap(SyncWait& wait) { free(static_cast<SelectWait&>(wait).heap); }

bool watch_wins(EndWait* shared) {
    auto* watch = static_cast<Watch*>(shared);
    auto* wait = static_cast<SyncWait*>(watch->stands_for);
    if (!wait->decide()) return false;
    wait->winner = watch->waiter;
    return true;
}

void watch_ended(Watch* watch, int64_t result) {
    if (watch_wins(watch)) end_wait_complete(watch, result);
}

void* watch_descriptor(void* argument) {
    auto* what = static_cast<fiber_case_t*>(argument);
    return reinterpret_cast<void*>(intptr_t(fiber_poll_fd(what->fd, int(what->number))));
}

int begin_helper(Cord& cord, Watch& watch) {
    Fiber* helper;
    int error = fiber_create(cord, Kind::helper, &helper);
    if (error) return error;
    helper->fn = watch_descriptor;
    helper->arg = watch.what;
    helper->stack_class = fiber_attr().stack_class;
    helper->state = State::scheduled;
    cord.queue.push(helper);
    watch.target = watch.helper = helper;
    return join_watch(cord, helper, id_generation(fibers.id_of(helper)), watch);
}

// Which nothing ends early: until then it may look at the case.
void end_helper(Cord& cord, Fiber* helper) {
    note_reason(helper, nullptr);
    cancel(cord, helper);
    if (helper->state == State::dead) return fiber_free(cord, helper);
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
    if (where != elsewhere && target->state == State::dead) { // since it was tried: by a message about another case
        if (watch_wins(&watch)) end_wait_complete(&watch, join(cord, target, &watch.value, never));
        return 0;
    }
    watch.target = target;
    int error = join_watch(cord, target, id_generation(handle.id), watch);
    if (error) watch.target = nullptr;
    return error;
}

int begin_scope(Watch& watch) {
    if (int error = own_scope(watch.what->scope, &watch.scope)) return error;
    if (!children_watch(watch.scope, watch)) watch_ended(&watch, 0); // as above; it is taken when the select has ended
    return 0;
}

int begin_watch(Cord& cord, Watch& watch) {
    switch (watch.what->kind) {
    case FIBER_CASE_JOIN: return begin_join(cord, watch);
    case FIBER_CASE_FD: return begin_helper(cord, watch);
    default: return begin_scope(watch);
    }
}

void begin_watches(SelectWait& wait) {
    for (uint32_t i = 0; i < wait.count && !wait.is_decided(); i++) {
        Watch& watch = wait.watches[i];
        if (!is_watched(*watch.what)) continue;
        watch.stands_for = &wait;
        watch.wins = watch_wins;
        if (int error = begin_watch(*wait.home, watch)) watch_ended(&watch, error);
    }
}

void leave_targets(SyncWait& base) {
    auto& wait = static_cast<SelectWait&>(base);
    for (uint32_t i = 0; i < wait.count; i++) {
        Watch& watch = wait.watches[i];
        if (watch.target) join_unwatch(watch.target, watch);
        watch.target = nullptr;
        if (watch.scope) children_unwatch(watch.scope, watch);
        watch.scope = nullptr;
    }
}

// Of the descriptors that have not won; the winner's has been joined. Meanwhile the fiber is parked again, and what it
// was given must not be lost, if its thread ends now.
void end_helpers(SelectWait& wait) {
    for (uint32_t i = 0; i < wait.count; i++) {
        Fiber* helper = wait.watches[i].helper;
        if (!helper || wait.winner == &wait.waiters[i]) continue;
        wait.home->woken_waits.push_back(&wait);
        end_helper(*wait.home, helper);
        wait.home->woken_waits.remove(&wait);
    }
}

struct Memory {
    Select::Entry* entries;
    Waiter* waiters;
    Watch* watches;
    void* heap; // all of it; null: it is the caller's stack
};

// The result of a select that does not wait.
int at_once(Caller caller, const fiber_case_t* cases, int had) {
    if (caller.turn_is_due()) [[unlikely]]
        had == nobody ? turn_give(*caller.cord) : select_give_turn(cases[had]);
    return had == nobody ? -ETIMEDOUT : had;
}

// None could be had at once.
int wait_for_all(Caller caller, fiber_case_t* cases, uint32_t count, uint32_t begin, int64_t timeout_ns,
                 const Memory& memory) {
    for (uint32_t i = 0; i < count; i++) {
        memory.watches[i].what = &cases[i];
        memory.watches[i].waiter = &memory.waiters[i];
    }
    SelectWait wait(memory.waiters, count, memory.watches);
    wait.what = WaitFor::select;
    wait.leave_others = leave_targets;
    wait.heap = memory.heap;
    if (wait.heap) wait.abandon = free_heap;
    int timer = earliest_timer(cases, count, &timeout_ns);
    int64_t deadline = caller.deadline(timeout_ns);
    Select select = {cases, memory.entries, memory.waiters, count, begin};
    int64_t result;
    int had = select.try_or_join(wait, caller.cord, &result);
    if (had != nobody) {
        cases[had].result = result;
        return had;
    }
    begin_watches(wait);
    result = wait.park(deadline);
    end_helpers(wait);
    if (wait.winner) {
        auto i = wait.winner - memory.waiters;
        const Watch& watch = memory.watches[i];
        cases[i].result = watch.stands_for ? watch.result : result;
        if (cases[i].kind == FIBER_CASE_JOIN && !watch.result) cases[i].value = watch.value;
        if (watch.helper && !watch.result) cases[i].result = intptr_t(watch.value);
        if (cases[i].kind == FIBER_CASE_SCOPE && !watch.result) cases[i].result = try_scope(caller, cases[i]);
        return int(i);
    }
    if (result != -ETIMEDOUT || timer == nobody || clock_now() < deadline) return int(result);
    cases[timer].result = 0;
    return timer;
}

[[gnu::noinline]] int wait_for_few(Caller caller, fiber_case_t* cases, uint32_t count, uint32_t begin,
                                   int64_t timeout_ns) {
    Select::Entry entries[few];
    Waiter waiters[few];
    Watch watches[few];
    return wait_for_all(caller, cases, count, begin, timeout_ns, {entries, waiters, watches, nullptr});
}

[[gnu::noinline]] int wait_for_many(Caller caller, fiber_case_t* cases, uint32_t count, uint32_t begin,
                                    int64_t timeout_ns) {
    KeepErrno keep;
    void* memory = malloc((sizeof(Watch) + sizeof(Waiter) + sizeof(Select::Entry)) * count);
    if (!memory) return -ENOMEM;
    auto* watches = static_cast<Watch*>(memory);
    auto* waiters = reinterpret_cast<Waiter*>(watches + count);
    auto* entries = reinterpret_cast<Select::Entry*>(waiters + count);
    for (uint32_t i = 0; i < count; i++) {
        new (&watches[i]) Watch;
        new (&waiters[i]) Waiter;
        new (&entries[i]) Select::Entry;
    }
    int result = wait_for_all(caller, cases, count, begin, timeout_ns, {entries, waiters, watches, memory});
    free(memory);
    return result;
}

// ---- The call -------------------------------------------------------------------------------------------------------

bool is_malformed(const fiber_case_t& what) {
    switch (what.kind) {
    case FIBER_CASE_NONE:
    case FIBER_CASE_JOIN:
    case FIBER_CASE_SCOPE: return false;
    case FIBER_CASE_SEND:
    case FIBER_CASE_RECV: return !what.item;
    case FIBER_CASE_TIMER: return what.number < 0;
    case FIBER_CASE_FD: return what.number <= 0 || what.number > 0xffff;
    case FIBER_CASE_EVENT: return !what.object;
    case FIBER_CASE_SEM: return !what.object || what.number <= 0;
    default: return true;
    }
}

} // namespace

int fiber_select(fiber_case_t* cases, int number, int64_t timeout_ns) {
    if ((!cases && number) || number < 0 || number > FIBER_SELECT_MAX || timeout_ns < 0) return -EINVAL;
    auto count = uint32_t(number);
    bool for_cord = false;
    for (uint32_t i = 0; i < count; i++) {
        if (is_malformed(cases[i])) return -EINVAL;
        if (is_watched(cases[i])) for_cord = true;
    }
    if (for_cord && !cord_here()) return no_cord();
    Caller caller = Caller::here();
    if (int error = caller.begin(timeout_ns)) return error;
    uint32_t turn = caller.cord ? caller.cord->select_turn++ : plain_turn++;
    // Scattered evenly: else of selects that alternate each would begin with the same case for ever.
    uint32_t begin = uint32_t(uint64_t(turn * 0x9e3779b9) * count >> 32);
    int had = try_each(caller, cases, count, begin);
    if (had != nobody || timeout_ns == 0) {
        return at_once(caller, cases, had);
    }
    if (int error = caller.refused()) return error; // of another cord's, which a try may have brought
    return (count <= few ? wait_for_few : wait_for_many)(caller, cases, count, begin, timeout_ns);
}
