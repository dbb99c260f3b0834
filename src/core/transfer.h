// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers: a fiber gives the thread, and a value, to a certain fiber, and parks until a transfer gives it back.
#pragma once

#include "core/cord.h"

namespace fiberrt {

// Why no fiber can transfer to this one now: -EINVAL, -ESRCH, -EBUSY; 0: one can.
int refuse_transfer(const Fiber* to);

// The handle of the fiber that last transferred to this one; 0: none has.
inline uint64_t transferrer_of(const Fiber* fiber) { return fiber->uses_stack() ? fiber->received.transferrer : 0; }

// Transfers to a fiber of this cord, which refuse_transfer() has allowed. Returns the result of the switch, with the
// value in transfer_value. Polls first, so it may also refuse: -EAGAIN, an error of refuse_transfer(), or why the
// caller's call must fail.
int transfer(Cord& cord, fiber_t handle, void* value);

} // namespace fiberrt
