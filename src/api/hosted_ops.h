// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations of hosted fibers, between their records and what is below.
#pragma once

#include "stackless/hosted.h"
#include "fiberrt.h"

#include <stddef.h>

namespace fiberrt::api {

static_assert(sizeof(HostedOp) == sizeof(fiber_op_t::internal) && sizeof(fiber_op_t) == 400);

inline HostedOp& hosted_op(fiber_op_t& record) { return *reinterpret_cast<HostedOp*>(record.internal); }
inline fiber_op_t& record_of(HostedOp& op) {
    return *reinterpret_cast<fiber_op_t*>(reinterpret_cast<char*>(&op) - offsetof(fiber_op_t, internal));
}

// For hosted_start.
int64_t begin_hosted_op(Cord& cord, Fiber* fiber, HostedOp& op);

} // namespace fiberrt::api
