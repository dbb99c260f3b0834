// SPDX-License-Identifier: MIT OR Apache-2.0
// What the library tells a program about fibers of any cord, and about the calling thread's cord.
#pragma once

#include "core/cord.h"
#include "fiberrt.h"

namespace fiberrt {

// These three read a fiber that may belong to another cord and end meanwhile: then they return -ESRCH.
int state_of(Fiber* fiber, fiber_t handle); // FIBER_NEW, ...
int describe(Fiber* fiber, fiber_t handle, fiber_info_t* out);
int name_of(Fiber* fiber, fiber_t handle, char (&name)[FIBER_NAME_MAX]);

void set_name(Fiber* fiber, const char* name); // cut to what fits

fiber_stats_t stats_of(const Cord& cord);

} // namespace fiberrt
