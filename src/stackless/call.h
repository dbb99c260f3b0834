// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations of stackless fibers that a fiber with a stack performs in their place: rare ones, and operations of many
// waits.
#pragma once

#include "stackless/record.h"

namespace fiberrt {

enum class Stops : bool { no, yes };

// Has another fiber call fn(record); fn's result becomes the operation's. Stops::yes: a cancel, interrupt or deadline
// of the operation cancels that fiber. The operation ends only when that fiber has ended, since the fiber may be using
// the memory that the record points to. -ENOMEM, -EAGAIN, or hosted_waits.
int64_t call_by_stack(Cord& cord, Fiber* fiber, HostedOp& op, int64_t (*fn)(fiber_op_t& record),
                      Stops stops = Stops::yes);

} // namespace fiberrt
