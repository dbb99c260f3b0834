// SPDX-License-Identifier: MIT OR Apache-2.0
// The waits of all primitives: parking, leaving the lists, and ending early.
// fuzz: waiting 75 %
#include "sync/waiting.h"

#include "base/check.h"
#include "base/planted.h"

namespace fiberrt {

namespace {

// Claims the wait and removes it from all its lists. False: another thread has claimed it, and completes it.
bool withdraw(SyncWait& wait) {
    if (!wait.decide()) return false;
    wait.leave_lists();
    return true;
}

} // namespace

void SyncWait::stop_early(Wait* base, int reason) {
    auto& wait = *static_cast<SyncWait*>(base);
    if (!wait.stoppable && reason != -EDEADLK && !wait.home->shutdown.leaving) return;
    if (!withdraw(wait)) return;
    if (wait.abandon) wait.home->shared.woken.push_back(&wait); // the thread may end before the fiber continues
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
    if (winner && (count > 1 || leave_others)) leave_lists(); // else it was in one list only, or has been stopped
    return result;
}

void SyncWait::give_turn(Waiter& taker, Waiters& list) {
    Cord& cord = *this_cord;
    taker.list = &list;
    winner = &taker;
    on_orphaned = pass_on;
    cord.shared.woken.push_back(this);
    poll_and_give_way(cord);
    cord.shared.woken.remove(this);
}

// Waits for the lock. The first caller in the child of a fork finds the waiters of the parent, or a list that another
// thread was changing when the process forked: then it empties the list.
[[gnu::noinline]] void Waiters::enter_slowly(uint32_t word) {
    if (lock.await(word)) forget_all();
}

// Removes all waiters except the winner, which was removed already and whose primitive may have been freed. The user
// must keep the other primitives until then.
void SyncWait::leave_lists() {
    for (uint32_t i = 0; i < count; i++) {
        Waiter& waiter = waiters[i];
        if (&waiter == winner || !waiter.list) continue;
        if (PLANTED(loser_of_select_stays) && winner) continue;
        Changing changing(*waiter.list);
        waiter.list->remove(&waiter);
        if (!PLANTED(stopped_waiter_keeps_the_turn) && waiter.kind->left) waiter.kind->left(*waiter.list, changing);
        waiter.list = nullptr;
    }
    if (leave_others) leave_others(*this);
}

void Completions::complete_all(Message* message) {
    while (message) {
        Message* next = message->next; // the wait is its fiber's again once it is completed
        shared_wait_complete(static_cast<SyncWait*>(message));
        message = next;
    }
}

} // namespace fiberrt
