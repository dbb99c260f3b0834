// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes stackless fibers with attributes, for the API.
#pragma once

#include "core/attr.h"
#include "stackless/hosted.h"

namespace fiberrt {

int hosted_create_with(Cord& cord, const fiber_attr& attr, fiber_step_t step, void* user, Fiber** out);

} // namespace fiberrt
