// SPDX-License-Identifier: MIT OR Apache-2.0
// How a call waits in the list of one primitive.
// fuzz: waiting 95 %
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

// A wait in one list.
struct OneWait {
    explicit OneWait(const WaiterKind& kind, uint64_t number = 0, void* item = nullptr) : wait(&waiter, 1) {
        wait.what = WaitFor::primitive;
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

// Joins a list that is locked, unlocks it, and waits. Returns what the wait was completed with, or why it ended early; to
// a stackless fiber also must_wait.
int wait_in(Waiters& list, const WaiterKind& kind, uint64_t number, void* item, Cord* home, int64_t deadline);
// SyncWait::give_turn, for a call that did not have to wait.
void give_turn(Waiters& list, const WaiterKind& kind, uint64_t number, void* item = nullptr);

// A call that waits unless try_now(), called under the lock, says that it need not: 0, or an error; -EAGAIN: it must.
// Its result, what the wait was completed with, or why it ended early.
template <class Try>
int wait_unless(Waiters& list, Caller caller, int64_t timeout_ns, const WaiterKind& kind, uint64_t number,
                Try try_now) {
    if (int error = caller.begin(timeout_ns)) return error;
    list.enter();
    int result = try_now();
    if (result == -EAGAIN && timeout_ns)
        return wait_in(list, kind, number, nullptr, caller.cord, caller.deadline(timeout_ns));
    list.leave();
    if (result == -EAGAIN) return -ETIMEDOUT;
    if (caller.turn_is_due()) [[unlikely]]
        result ? turn_give(*this_cord) : give_turn(list, kind, number); // a caller that is refused has taken nothing
    return result;
}

} // namespace fiberrt
