// SPDX-License-Identifier: MIT OR Apache-2.0
// Cancels and interrupts a fiber of the calling cord: ends its present wait early, or makes its next call fail.
#pragma once

namespace fiberrt {

struct Cord;
struct Fiber;

void cancel(Cord& cord, Fiber* fiber);    // the caller has noted the reason in Fiber::remote (note_reason)
void interrupt(Cord& cord, Fiber* fiber); // the caller has noted the value there (note_interrupt)

// Ends the present wait of a fiber early, if it waits and its kind of wait allows it.
void stop(Cord& cord, Fiber* fiber, int reason);

// Returns why a switching call of the fiber must fail now: -EPERM, -ECANCELED, -EINTR or -ETIMEDOUT. Consumes a pending
// interrupt if that is the reason. The caller has seen that fiber->sched.pending is not zero.
int why_refused(Cord& cord, Fiber* me);

// Like why_refused, for a call of the current fiber that fails at once with the result. Counts as a turn, so that a
// fiber that makes such calls in a loop does not keep the thread for itself.
int check_pending(Cord& cord, Fiber* me);

// Notes that an interrupt has become the result of a call.
void interrupt_delivered(Cord& cord, Fiber* fiber);

// Makes a delivered interrupt pending again, unless a later one is pending: the call has another result after all.
void interrupt_given_back(Cord& cord, Fiber* fiber);

} // namespace fiberrt
