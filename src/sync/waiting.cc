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
    if (!wait.claim()) return false;
    wait.remove_from_lists();
    return true;
}

} // namespace

void SyncWait::stop_early(Wait* base, int reason) {
    auto& wait = *static_cast<SyncWait*>(base);
    if (!wait.stoppable && reason != -EDEADLK && !wait.home->shutdown.leaving) return;
    if (!withdraw(wait)) return;
    if (wait.free_memory) wait.home->shared.ended.push_back(&wait); // the thread may end before the fiber continues
    shared_wait_stopped(wait, reason);
}

bool SyncWait::stop_thread(SharedWait& wait) { return withdraw(static_cast<SyncWait&>(wait)); }

void SyncWait::pass_on(SharedWait* base) {
    auto& wait = *static_cast<SyncWait*>(base);
    wait.remove_from_lists();
    const WaiterKind* kind = wait.selected ? wait.selected->kind : nullptr;
    if (kind && kind->return_grant) kind->return_grant(wait);
    if (wait.free_memory) wait.free_memory(wait);
}

int64_t SyncWait::park(int64_t deadline) {
    int64_t result = shared_wait_park(*this, deadline, stop_thread);
    if (selected && (count > 1 || end_watches))
        remove_from_lists(); // else it was in one list only, or has been stopped
    return result;
}

void SyncWait::give_turn(Waiter& grant, Waiters& list) {
    Cord& cord = *this_cord;
    grant.list = &list;
    selected = &grant;
    on_orphaned = pass_on;
    cord.shared.ended.push_back(this);
    poll_and_give_way(cord);
    cord.shared.ended.remove(this);
}

// Waits for the lock. The first caller in the child of a fork finds the waiters of the parent, or a list that another
// thread was changing when the process forked: then it empties the list.
[[gnu::noinline]] void Waiters::lock_list_slowly(uint32_t word) {
    if (lock.await(word)) drop_all();
}

// Removes all waiters except the selected one, which was removed already and whose primitive may have been freed. The
// user must keep the other primitives until then.
void SyncWait::remove_from_lists() {
    for (uint32_t i = 0; i < count; i++) {
        Waiter& waiter = waiters[i];
        if (&waiter == selected || !waiter.list) continue;
        if (PLANTED(loser_of_select_stays) && selected) continue;
        LockedList locked(*waiter.list);
        waiter.list->remove(&waiter);
        if (!PLANTED(stopped_waiter_keeps_the_turn) && waiter.kind->on_removed)
            waiter.kind->on_removed(*waiter.list, locked);
        waiter.list = nullptr;
    }
    if (end_watches) end_watches(*this);
}

void Completions::complete_all(Message* message) {
    while (message) {
        Message* next = message->next; // the wait is its fiber's again once it is completed
        shared_wait_complete(static_cast<SyncWait*>(message));
        message = next;
    }
}

} // namespace fiberrt
