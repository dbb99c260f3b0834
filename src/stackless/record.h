// SPDX-License-Identifier: MIT OR Apache-2.0
// Converts between the public record of a stackless fiber's operation and the library's part in it.
#pragma once

#include "stackless/hosted.h"
#include "fiberrt.h"

#include <stddef.h>

namespace fiberrt {

static_assert(sizeof(HostedOp) == sizeof(fiber_op_t::internal) && sizeof(fiber_op_t) == 400);

inline HostedOp& hosted_op(fiber_op_t& record) { return *reinterpret_cast<HostedOp*>(record.internal); }
inline fiber_op_t& record_of(HostedOp& op) {
    return *reinterpret_cast<fiber_op_t*>(reinterpret_cast<char*>(&op) - offsetof(fiber_op_t, internal));
}

} // namespace fiberrt
