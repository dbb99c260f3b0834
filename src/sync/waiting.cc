// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits of the primitives: how they begin, and how they end early.
#include "sync/waiting.h"

#include "base/check.h"
#include "core/begin.h"
#include "sync/perform.h"

namespace fiberrt {

int Caller::prepare_slowly() {
    if (!cord) {
        if (!process_begin()) return -ENOMEM;
        if (!environment) return 0;
        if (!environment->admits()) return -ENOTSUP;
    }
    cord = cord_here(); // a foreign loop's, or in a simulation one that is needed for time to pass
    if (!cord) return no_cord();
    fiber = cord->current;
    return 0;
}

int64_t Caller::clock_deadline(Cord* cord, int64_t timeout_ns) {
    if (cord) return deadline_after(*cord, timeout_ns);
    int64_t deadline;
    return __builtin_add_overflow(clock_now(), timeout_ns, &deadline) ? never : deadline;
}

namespace {

// Out of all its lists; false: it has been completed, and is on its way.
bool withdraw(SyncWait& wait) {
    if (!wait.decide()) return false;
    wait.leave_lists();
    return true;
}

} // namespace

void SyncWait::stop_early(Wait* base, int reason) {
    auto& wait = *static_cast<SyncWait*>(base);
    if (!wait.stoppable && reason != -EDEADLK && !wait.home->leaving) return;
    if (!withdraw(wait)) return;
    if (wait.abandon) wait.home->woken_waits.push_back(&wait); // the thread may end before its fiber goes on
    shared_wait_stopped(wait, reason);
}

bool SyncWait::stop_thread(SharedWait& wait) { return withdraw(static_cast<SyncWait&>(wait)); }

void SyncWait::pass_on(SharedWait* base) {
    auto& wait = *static_cast<SyncWait*>(base);
    wait.leave_lists();
    const WaiterKind* kind = wait.winner ? wait.winner->kind : nullptr;
    if (kind && kind->give_back) kind->give_back(wait);
    if (wait.abandon) wait.abandon(wait);
}

int64_t SyncWait::park(int64_t deadline) {
    int64_t result = shared_wait_park(*this, deadline, stop_thread);
    if (winner && (count > 1 || leave_others)) leave_lists(); // else it was in one, or has been stopped
    return result;
}

void SyncWait::give_turn(Waiter& taker, Waiters& list) {
    Cord& cord = *this_cord;
    taker.list = &list;
    winner = &taker;
    unwanted = pass_on;
    cord.woken_waits.push_back(this);
    turn_give(cord);
    cord.woken_waits.remove(this);
}

// The first to come in the child of a fork finds the waiters of the parent, or what was left of the list by somebody who
// was changing it just then.
[[gnu::noinline]] void Waiters::enter_slowly(uint32_t word) {
    if (lock.await(word)) forget_all();
}

// The winner has been taken out, and what it stood in may be gone. The others hold theirs in place.
void SyncWait::leave_lists() {
    for (uint32_t i = 0; i < count; i++) {
        Waiter& waiter = waiters[i];
        if (&waiter == winner || !waiter.list) continue;
        Changing changing(*waiter.list);
        waiter.list->remove(&waiter);
        if (waiter.kind->left) waiter.kind->left(*waiter.list, changing);
        waiter.list = nullptr;
    }
    if (leave_others) leave_others(*this);
}

namespace {

// A wait in one list, which is locked: joins and unlocks it at once, so that only the wait has to be in memory.
class WaitInList {
public:
    static constexpr bool waits_once = true;
    WaitInList(Waiters* list, const WaiterKind* kind, uint64_t number, void* item, Cord* home)
        : one_(*kind, number, item) {
        one_.join(*list, home);
        list->leave();
    }

    static int begin() { return must_wait; }
    static int64_t go_on(int64_t ended) { return ended; }
    SharedWait& wait() { return one_.wait; }

private:
    OneWait one_;
};

} // namespace

FIBERRT_RETURNS_BY_JUMP
int wait_in(Waiters& list, const WaiterKind& kind, uint64_t number, void* item, Cord* home, int64_t deadline) {
    return int(perform<WaitInList>(home, deadline, &list, &kind, number, item, home));
}

[[gnu::noinline]] void give_turn(Waiters& list, const WaiterKind& kind, uint64_t number, void* item) {
    OneWait one(kind, number, item);
    one.wait.give_turn(one.waiter, list);
}

void Completions::complete_all(Message* message) {
    while (message) {
        Message* next = message->next; // the wait is its fiber's again once it is completed
        shared_wait_complete(static_cast<SyncWait*>(message));
        message = next;
    }
}

} // namespace fiberrt
