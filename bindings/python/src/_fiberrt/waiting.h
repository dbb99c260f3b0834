// SPDX-License-Identifier: MIT OR Apache-2.0
// How a Python function waits. It must be a METH_FASTCALL function, or another one that the interpreter calls directly:
// pybind11 keeps records per thread that a switch would mix up. It holds the GIL all the time, opens the world, calls
// the core, and passes the result to settle():
//
//     if (!world()) return nullptr;
//     Timeout timeout;
//     if (!timeout.parse(count > 0 ? args[0] : nullptr)) return nullptr;
//     WaitsFor reason("semaphore");
//     for (;;) {
//         int64_t result = fiber_sem_wait_timeout(&self->semaphore, 1, timeout.left_ns());
//         switch (settle(result, &timeout)) {
//         case Settled::done: Py_RETURN_TRUE;
//         case Settled::timed_out: Py_RETURN_FALSE;
//         case Settled::again: continue;
//         case Settled::raised: return nullptr;
//         case Settled::failed: return raise_errno(result);
//         }
//     }
#pragma once

#include "fiber.h"
#include "traces.h"

namespace fiberrt_python {

// The timeout that the caller has given.
class Timeout {
public:
    // Takes seconds, an int or a float; None or null: for ever. Returns false with an exception set.
    bool parse(PyObject* seconds) {
        if (!seconds || seconds == Py_None) return true;
        return parse_seconds(seconds);
    }
    // Nanoseconds from now.
    void set(int64_t ns) {
        int64_t now = fiber_now();
        deadline_ns_ = ns < FIBER_FOREVER - now ? now + ns : FIBER_FOREVER;
    }
    bool for_ever() const { return deadline_ns_ == FIBER_FOREVER; }
    int64_t left_ns() const {
        if (for_ever()) return FIBER_FOREVER;
        int64_t left = deadline_ns_ - fiber_now();
        return left > 0 ? left : 0;
    }
    bool passed() const { return !for_ever() && fiber_now() >= deadline_ns_; }

private:
    bool parse_seconds(PyObject* seconds);
    int64_t deadline_ns_ = FIBER_FOREVER;
};

// Converts seconds to nanoseconds, rounded up. Returns -1 with an exception set if the object is not a number, negative
// or a NaN.
int64_t nanoseconds(PyObject* seconds);

// Polls are calls that return at once, with or without a result. A loop of polls never waits, so no other fiber would
// run.
bool turn_is_long(World* world); // whether the thread has had polls for 1 ms without a switch; call it at each poll
extern bool polls_give_turns;    // set by monkey.patch(), for programs written for threads
bool poll_turn_slowly();
// Lets the other fibers of the thread run once if the caller has polled for 1 ms without a switch. Each poll calls this
// before it has a result that an exception would lose. Returns false with an exception set, as by a wait.
inline bool poll_turn() {
    if (!polls_give_turns || !this_world || !this_world->live_count) [[likely]]
        return true;
    return poll_turn_slowly();
}

enum class Settled {
    done,      // the result is 0 or more
    timed_out, // the call's own timeout has passed
    again,     // an interrupt without an exception: call again
    raised,    // an exception is set: CancelledError, or one given to throw()
    failed,    // any other error, which the caller must raise
};

Settled settle_error(int64_t result, const Timeout* timeout);
inline Settled settle(int64_t result, const Timeout* timeout = nullptr) {
    if (result >= 0) [[likely]]
        return Settled::done;
    return settle_error(result, timeout);
}

// For results of I/O: there, -ETIMEDOUT may be the connection's own error, which counts as failed.
Settled settle_io_error(int64_t result, const Timeout* timeout);
inline Settled settle_io(int64_t result, const Timeout* timeout = nullptr) {
    if (result >= 0) [[likely]]
        return Settled::done;
    return settle_io_error(result, timeout);
}

// Raises OSError for a negative errno, or RuntimeError for errors that only the core returns. Returns null.
PyObject* raise_errno(int64_t error);

// Python calls this object before raise_errno(-ENOTSUP), which a simulation gives for descriptors that it cannot
// simulate; or null.
extern PyObject* on_refused;

// Limits the I/O of the calling fiber to a timeout, by a scope of the core. A timeout for ever opens no scope.
class TimeoutScope {
public:
    explicit TimeoutScope(const Timeout& timeout) {
        if (!timeout.for_ever()) error_ = fiber_scope_open(&scope_, timeout.left_ns(), 0);
    }
    ~TimeoutScope() {
        if (scope_.id) fiber_scope_close(scope_, nullptr);
    }
    TimeoutScope(const TimeoutScope&) = delete;
    TimeoutScope& operator=(const TimeoutScope&) = delete;
    int error() const { return error_; } // the error of opening the scope, or 0

private:
    fiber_scope_t scope_ = {0};
    int error_ = 0;
};

// While it lives, sets `waits_for` of the calling fiber, and has the place in the trace. The text must be constant.
class WaitsFor {
public:
    explicit WaitsFor(const char* what) : fiber_(this_world->current) { fiber_->waits_for = what; }
    ~WaitsFor() { fiber_->waits_for = nullptr; }
    WaitsFor(const WaitsFor&) = delete;
    WaitsFor& operator=(const WaitsFor&) = delete;

private:
    TracedPlace place_;
    FiberObject* fiber_;
};

extern PyObject* cancelled_error; // the class CancelledError
void raise_cancelled();
void raise_during_switch();
// Raises the next exception thrown into the calling fiber or, in the main flow, one intended for it. Returns false if
// there is none.
bool raise_thrown();
bool has_thrown(); // whether raise_thrown() would raise one

} // namespace fiberrt_python
