// SPDX-License-Identifier: MIT OR Apache-2.0
// The one blocking primitive: a fiber parks in a Wait, and whoever ends the wait first stores its result.
//
// A Wait lives in memory that the waiter supplies, usually its stack, and belongs to the waiter again when park()
// returns. It is ended exactly once, by wake(): by what was waited for, or by stop() when a cancel, an interrupt or a
// deadline comes first. Nothing is inferred from having been woken: the result is in the Wait.
//
// A call that waits is written so:
//     prepare: link the Wait (or something around it) where what is waited for will find it
//     park:    park(wait, deadline)
//     finish:  read wait.result; what was linked has been unlinked by whoever ended the wait
#pragma once

#include "core/timers.h"

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

// What a fiber waits for: told by fiber_dump, and nothing else hangs on it. The kinds that have a record around the
// Wait are found in it.
enum class WaitFor : uint32_t {
    something,
    time,          // a sleep
    fiber,         // the end of one of its own cord: JoinWait
    foreign_fiber, // of another cord: EndWait
    cord,          // the end of a cord: EndWait
    quiet,         // the end of other fibers of its cord
    children,      // of a scope: ChildrenWait
    op,            // an operation: Op
    uses,          // the end of what others do with a descriptor
    position,      // its turn at the position of a file
    lock,          // and the others of sync/: SyncWait
    condition,
    semaphore,
    event,
    wait_group,
    channel,
    select,
    pool,     // to work for it, or for its end
    offload,  // the end of a function on a thread for such
    turns,    // of hosted fibers, to run them
    exchange, // hosted fibers to take
    call,     // of a hosted fiber: the end of one with a stack that acts for it
};

struct Wait {
    // Ends the wait early with `reason` (-ECANCELED, -EINTR or -ETIMEDOUT): now, by unlinking it and wake(); or later,
    // if what is waited for must first let go of memory. Null: the wait cannot be ended early.
    using Stop = void (*)(Wait*, int reason);

    Fiber* fiber = nullptr; // who waits; set by park(), null again once the wait has ended
    Stop stop = nullptr;
    int on_deadline = 0; // what park()'s own deadline makes of it: 0 if to reach it is success, else -ETIMEDOUT
    WaitFor what = WaitFor::something;
    int64_t result = 0;
};

// park(cord, wait, deadline), which waits, is in core/relay.h.

// Ends a wait of a fiber of the calling cord.
void wake(Wait* wait, int64_t result);

// A Stop for waits that are linked nowhere.
void stop_at_once(Wait* wait, int reason);

} // namespace fiberrt
