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

#include <limits.h>
#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

// What a fiber waits for, which fiber_dump and gdb tell, and nothing else hangs on: X(reason, text). Where the text ends
// with a space, the record around the Wait says the rest: that record is named behind the text.
#define FIBERRT_WAITS(X)                                         \
    X(something, "waits")                                        \
    X(time, "sleeps")                                            \
    X(fiber, "joins fiber ")         /* of its cord: JoinWait */ \
    X(foreign_fiber, "joins fiber ") /* of another: EndWait */   \
    X(cord, "joins cord ")           /* EndWait */               \
    X(quiet, "waits for the end of other fibers of its cord")    \
    X(children, "waits for the children of a scope")             \
    X(op, "waits for ") /* Op */                                 \
    X(uses, "waits to close a descriptor that others use")       \
    X(position, "waits for its turn at the position of a file")  \
    X(primitive, "waits ") /* SyncWait: its WaiterKind */        \
    X(select, "waits for one of several")                        \
    X(pool, "waits for a pool")                                  \
    X(offload, "waits for a function that it has offloaded")     \
    X(turns, "waits for hosted fibers to run")                   \
    X(exchange, "waits for hosted fibers to take")               \
    X(call, "waits for a fiber that acts for it")

#define FIBERRT_REASON(reason, text) \
    static_assert(sizeof("" text) > 1, "src/core/wait.h: the reason " #reason " has no text");
FIBERRT_WAITS(FIBERRT_REASON)
#undef FIBERRT_REASON

#define FIBERRT_REASON(reason, text) reason,
enum class WaitFor : uint32_t { FIBERRT_WAITS(FIBERRT_REASON) };
#undef FIBERRT_REASON

constexpr const char* text_of(WaitFor reason) {
    switch (reason) {
#define FIBERRT_REASON(reason, text) \
    case WaitFor::reason: return "" text;
        FIBERRT_WAITS(FIBERRT_REASON)
#undef FIBERRT_REASON
    }
    return ""; // coverage: never
}

// What a step of an operation returns when it has linked a Wait that must end first. No call has this result.
constexpr int must_wait = INT_MIN + 1;

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
