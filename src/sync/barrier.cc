// SPDX-License-Identifier: MIT OR Apache-2.0
// Barriers: waiting for a round to be complete.
//
// A waiter's `item` points to a flag in its call: whether a complete round has counted the waiter. The last caller of a
// round sets the flags of all waiters under the list's lock. A waiter whose wait is being stopped by its own thread is
// still in the list then: the flag makes that call succeed, so a round never has too few members.
#include "sync/barrier.h"

#include "core/cancel.h"
#include "sync/one_wait.h"

namespace fiberrt {

namespace {

bool& is_counted(Waiter* waiter) { return *static_cast<bool*>(waiter->item); }

// A wait has ended early: subtracts the waiter from this round, unless a complete round has counted it.
void barrier_waiter_removed(Waiters& list, Completions&) { // coverage: race
    auto& barrier = static_cast<Barrier&>(list);
    if (!barrier.counted) {
        barrier.arrived--;
        return;
    }
    barrier.arrived = barrier.counted = 0; // count again: this function does not know the waiter that has left
    for (Waiter* waiter = list.any(); waiter; waiter = list.following(waiter)) {
        ++(is_counted(waiter) ? barrier.counted : barrier.arrived);
    }
}

constexpr WaiterKind barrier_waiter = {"at a barrier", barrier_waiter_removed, nullptr};

// Completes a round, because its last caller has arrived. The list is locked.
void complete_round(Barrier& barrier, Completions& done) {
    for (Waiter* waiter = barrier.any(); waiter; waiter = barrier.following(waiter)) is_counted(waiter) = true;
    done.claim_all(barrier, 0);
    barrier.arrived = barrier.counted = 0;
    for (Waiter* waiter = barrier.any(); waiter; waiter = barrier.following(waiter)) barrier.counted++;
}

} // namespace

int barrier_wait(Barrier& barrier, Caller caller, int64_t timeout_ns) {
    if (int error = caller.begin(timeout_ns)) return error;
    bool last;
    {
        Completions done; // after the lock
        barrier.lock_list();
        if (barrier.empty())
            barrier.arrived = barrier.counted = 0; // after a fork: the callers that had arrived wait in the parent
        last = barrier.arrived + 1 == barrier.count;
        if (last) {
            complete_round(barrier, done);
        } else if (barrier.count && timeout_ns) {
            barrier.arrived++;
            bool counted = false;
            int result = wait_in(barrier, barrier_waiter, 0, &counted, caller.cord, caller.deadline(timeout_ns));
            if (result == 0 || !counted) return result;
            // coverage: race
            if (result == -EINTR) interrupt_given_back(*caller.cord, caller.fiber);
            return 0; // a cancel or the deadline of a scope ends the next call instead
        }
        barrier.unlock_list();
    }
    if (!last) return barrier.count ? -ETIMEDOUT : -EINVAL;
    if (caller.charge_makes_poll_due()) [[unlikely]]
        poll_and_give_way(*this_cord);
    return 1;
}

} // namespace fiberrt
