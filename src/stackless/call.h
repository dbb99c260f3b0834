// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations of stackless fibers that a fiber with a stack performs in their place: the rare ones, and those made of many
// waits.
#pragma once

#include "stackless/record.h"

namespace fiberrt {

enum class Stops : bool { no, yes };

// Has another fiber call fn(record), whose result becomes the operation's. Stops::yes: what ends the operation early
// cancels that fiber, which is awaited in any case, since it may be at work with what the record points to. -ENOMEM,
// -EAGAIN, or hosted_waits.
int64_t call_by_stack(Cord& cord, Fiber* fiber, HostedOp& op, int64_t (*fn)(fiber_op_t& record),
                      Stops stops = Stops::yes);

} // namespace fiberrt
