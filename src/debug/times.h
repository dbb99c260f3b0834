// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the times that accounting has measured, in nanoseconds. The calls of api/accounting.cc use it.
#pragma once

#include "core/cord.h"
#include "fiberrt.h"

namespace fiberrt {

// Reads the times of a fiber of any cord. 0; -ENODATA, -EAGAIN, -ENOMEM, -ESRCH: see fiber_times.
int read_times(Fiber* fiber, fiber_t handle, fiber_times_t* out);

// Reads the times of the cord of this generation. 0; -ENODATA, -EAGAIN, -ESRCH.
int read_times(Cord& cord, uint32_t generation, fiber_cord_times_t* out);

// Calls visit for the sums by what `by` says, which is valid. The result of visit; -ENODATA, -ENOMEM.
int each_sum(int by, int (*visit)(const fiber_times_sum_t* sum, void* arg), void* arg);

} // namespace fiberrt
