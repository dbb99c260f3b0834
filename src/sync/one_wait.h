// SPDX-License-Identifier: MIT OR Apache-2.0
// A wait in the list of one primitive. All calls that wait for a primitive use it, except select.
// fuzz: waiting 95 %
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

// A wait in one list.
struct OneWait {
    explicit OneWait(const WaiterKind& kind, uint64_t number = 0, void* item = nullptr) : wait(&waiter, 1) {
        wait.what = kind.what;
        waiter.wait = &wait;
        waiter.kind = &kind;
        waiter.number = number;
        waiter.item = item;
    }

    void join(Waiters& list, Cord* home, bool first = false) { // the list is locked
        wait.begin(home);
        first ? list.add_first(waiter) : list.add(waiter);
    }
    SyncWait wait;
    Waiter waiter;
};

// wait_in and give_turn are not inlined: calls that need not wait would take twice as long with a wait on their stacks.

// Joins a list that is locked, unlocks it, and waits. Returns the result that the wait was completed with, or why it
// ended early; to a stackless fiber also must_wait.
int wait_in(Waiters& list, const WaiterKind& kind, uint64_t number, void* item, Cord* home, int64_t deadline);

// Lets the other fibers run after a call that did not have to wait: see SyncWait::give_turn.
void give_turn(Waiters& list, const WaiterKind& kind, uint64_t number, void* item = nullptr);

// Runs a call of a primitive that may wait. try_now(), called under the lock, returns 0 or an error if the call need
// not wait, -EAGAIN if it must. Returns the result of try_now() or of the wait, or why the wait ended early.
template <class Try>
int wait_unless(Waiters& list, Caller caller, int64_t timeout_ns, const WaiterKind& kind, uint64_t number,
                Try try_now) {
    if (int error = caller.begin(timeout_ns)) return error;
    list.lock_list();
    int result = try_now();
    if (result == -EAGAIN && timeout_ns)
        return wait_in(list, kind, number, nullptr, caller.cord, caller.deadline(timeout_ns));
    list.unlock_list();
    if (result == -EAGAIN) return -ETIMEDOUT;
    if (caller.charge_makes_poll_due()) [[unlikely]]
        result ? poll_and_give_way(*this_cord) : give_turn(list, kind, number); // after an error it has taken nothing
    return result;
}

} // namespace fiberrt
