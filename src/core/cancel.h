// SPDX-License-Identifier: MIT OR Apache-2.0
// What others do to a fiber of the calling cord: cancel and interrupt it.
#pragma once

namespace fiberrt {

struct Cord;
struct Fiber;

void cancel(Cord& cord, Fiber* fiber);    // its reason has been noted in its mail
void interrupt(Cord& cord, Fiber* fiber); // its value has been noted there too

// Ends the present wait of a fiber early, if it waits and its kind of wait allows it.
void stop(Cord& cord, Fiber* fiber, int reason);

// Returns why a switching call of the fiber must fail now: -EPERM, -ECANCELED, -EINTR or -ETIMEDOUT. Consumes a pending
// interrupt if that is the reason. The caller has seen that fiber->sched.attention is not zero.
int why_refused(Cord& cord, Fiber* me);

// why_refused for a call of the current fiber that fails at once with the result. It counts as a turn, so that a fiber
// which makes such calls in a loop does not keep the thread for itself.
int attend(Cord& cord, Fiber* me);

// An interrupt has become the result of a call.
void interrupt_delivered(Cord& cord, Fiber* fiber);

// The call has another result after all: the interrupt is pending again, unless there is a later one by now.
void interrupt_given_back(Cord& cord, Fiber* fiber);

} // namespace fiberrt
