// SPDX-License-Identifier: MIT OR Apache-2.0
// Begins the operations of stackless fibers.
#pragma once

#include "stackless/record.h"

namespace fiberrt::api {

// Begins the operation of a record, for fiber_op_start and fiber_exchange. Returns the result, or hosted_waits.
int64_t begin_hosted_op(Cord& cord, Fiber* fiber, HostedOp& op);

} // namespace fiberrt::api
