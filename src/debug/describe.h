// SPDX-License-Identifier: MIT OR Apache-2.0
// Introspection: the state, name and figures of a fiber of any cord, and the statistics of a cord. The calls of
// api/introspection.cc use it.
#pragma once

#include "core/cord.h"
#include "fiberrt.h"

namespace fiberrt {

// Read the state (FIBER_NEW, ...), all public members, and the name of a fiber. It may belong to another cord. If it
// ends meanwhile, they return -ESRCH.
int state_of(Fiber* fiber, fiber_t handle);
int describe(Fiber* fiber, fiber_t handle, fiber_info_t* out);
int name_of(Fiber* fiber, fiber_t handle, char (&name)[FIBER_NAME_MAX]);

// Names a fiber. A name that is too long is cut.
void set_name(Fiber* fiber, const char* name);

// The statistics of the calling thread's cord.
fiber_stats_t stats_of(const Cord& cord);

} // namespace fiberrt
