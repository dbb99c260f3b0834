// SPDX-License-Identifier: MIT OR Apache-2.0
// A receive with MSG_WAITALL.
#pragma once

#include "io/descriptor_use.h"

namespace fiberrt {

// op: a recv, or a recvmsg whose message can be read.
int64_t receive_all(DescriptorUse& use, const Op& op);

} // namespace fiberrt
