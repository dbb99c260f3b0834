// SPDX-License-Identifier: MIT OR Apache-2.0
// A receive with MSG_WAITALL, where a ring's own differs from the kernel's.
#pragma once

#include "io/descriptor_guard.h"

namespace fiberrt {

// Receives until the buffers are full or the kernel's own call would end. op: a recv, or a recvmsg whose message can be
// read.
int64_t receive_all(DescriptorGuard& guard, const Op& op);

} // namespace fiberrt
