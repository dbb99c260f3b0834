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
int describe_briefly(Fiber* fiber, fiber_t handle, fiber_info_t* out); // without a look: the members up to `cord`
int name_of(Fiber* fiber, fiber_t handle, char (&name)[FIBER_NAME_MAX]);

// Names a fiber. A name that is too long is cut.
void set_name(Fiber* fiber, const char* name);

// The statistics of the calling thread's cord.
fiber_stats_t stats_of(const Cord& cord);

// The statistics of any cord, read while the cord runs. 0; -ESRCH: the cord of this generation has ended.
int stats_of_any(Cord& cord, uint32_t generation, fiber_stats_t* out);

// Stores the return addresses of the fiber's frames; of the calling fiber from `caller` on, an address in one of its
// functions. Returns how many; -EBUSY: it runs, or gives no chance to look; -ESRCH.
int backtrace_of(Fiber* fiber, fiber_t handle, const void* caller, void** frames, int most);

// Calls visit for each fiber of the process until it returns a value other than 0. Returns the last value.
int each_fiber(int (*visit)(fiber_t fiber, void* arg), void* arg);

} // namespace fiberrt
