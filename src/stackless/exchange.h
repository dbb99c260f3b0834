// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_exchange: starts operations of stackless fibers, and hands fibers without a step out to the host, the runtime
// that runs them.
#pragma once

#include "stackless/record.h"

namespace fiberrt {

using BeginOp = int64_t (*)(Cord& cord, Fiber* fiber, HostedOp& op);

// Starts one operation. 1: it is done; 0: it is under way; or why it cannot be started.
int start_op(Cord& cord, fiber_op_t& op, BeginOp begin);

// Starts the operations, then takes fibers that are runnable or whose operations are done; waits until there is one, or
// the time is over. Does not take fibers past a fiber with a stack, so turns keep their order. Returns how many it
// took, or why the wait ended early.
int exchange(Cord& cord, fiber_op_t* const* ops, int op_count, fiber_completion_t* out, int most, int64_t timeout_ns,
             BeginOp begin);

// Marks operations as not started. Returns the error.
int not_started(fiber_op_t* const* ops, int op_count, int error);

} // namespace fiberrt
