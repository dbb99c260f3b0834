// SPDX-License-Identifier: MIT OR Apache-2.0
// The one blocking primitive: a fiber parks in a Wait, and the waker stores the result in it.
//
// The waiter supplies the memory of the Wait, usually on its stack; the Wait is the waiter's again when park() returns.
// wake() ends it exactly once: the waker calls it when the event has come, or stop() does when a cancel, an interrupt
// or a deadline comes first. Being woken tells a waiter nothing: it reads the result in the Wait.
//
// A call that waits is written so:
//     prepare: link the Wait (or a record around it) where the waker will find it
//     park:    park(wait, deadline)
//     finish:  read wait.result; the side that ended the wait has unlinked it
#pragma once

#include "core/timers.h"

#include <limits.h>
#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

// The reasons to wait: X(reason, text). Dumps, fiber_info, traces, probes and gdb show them. Where the text ends with a
// space, the record around the Wait has the rest of the text: the comment names that record.
#define FIBERRT_WAITS(X)                                        \
    X(something, "waits")                                       \
    X(time, "sleeps")                                           \
    X(fiber, "joins fiber ")         /* same cord: JoinWait */  \
    X(foreign_fiber, "joins fiber ") /* other cord: EndWait */  \
    X(cord, "joins cord ")           /* EndWait */              \
    X(quiet, "waits for the end of other fibers of its cord")   \
    X(children, "waits for the children of a scope")            \
    X(op, "waits for ") /* Op */                                \
    X(uses, "waits to close a descriptor that others use")      \
    X(position, "waits for its turn at the position of a file") \
    X(primitive, "waits ") /* SyncWait: its WaiterKind */       \
    X(channel, "waits ")   /* SyncWait, of a channel */         \
    X(select, "waits for one of several")                       \
    X(pool, "waits for a pool")                                 \
    X(offload, "waits for a function that it has offloaded")    \
    X(executor, "waits for hosted fibers to run")               \
    X(exchange, "waits for hosted fibers to take")              \
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

// Whether the record around the Wait is a SyncWait.
constexpr bool is_sync_wait(WaitFor reason) { return reason == WaitFor::primitive || reason == WaitFor::channel; }

// The result of a step of an operation that has linked a Wait which must end first. No call returns this.
constexpr int must_wait = INT_MIN + 1;

struct Wait {
    // Ends the wait early with `reason` (-ECANCELED, -EINTR or -ETIMEDOUT): now, by unlinking it and wake(); or later,
    // if the waker must first let go of memory. Null: the wait cannot be ended early.
    using Stop = void (*)(Wait*, int reason);

    Fiber* fiber = nullptr; // the waiter; set by park(), null again once the wait has ended
    Stop stop = nullptr;
    int on_deadline = 0; // the result at park()'s deadline: 0 if reaching the deadline is success, else -ETIMEDOUT
    WaitFor what = WaitFor::something;
    int64_t result = 0;
};

// park(cord, wait, deadline), which waits, is in core/scheduler.h.

// Ends a wait of a fiber of the calling cord.
void wake(Wait* wait, int64_t result);

// A Stop for waits that are linked nowhere.
void stop_at_once(Wait* wait, int reason);

} // namespace fiberrt
