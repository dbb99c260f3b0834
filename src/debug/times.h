// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the times that accounting has measured, in nanoseconds. The calls of api/accounting.cc use it.
#pragma once

#include "core/cord.h"
#include "fiberrt.h"

namespace fiberrt {

// The names of FIBER_WAIT_TIME and so on, in JSON and in metrics.
constexpr const char* wait_kind_names[] = {"time", "io", "lock", "channel", "fiber", "children", "wakeup", "other"};
static_assert(sizeof wait_kind_names / sizeof *wait_kind_names == FIBER_WAIT_KINDS);

struct CordRecord;

// The record of the cord of this generation, if the cord follows the present accounting; otherwise null.
const CordRecord* record_in_use(const Cord& cord, uint32_t generation);

// Reads the times of a fiber of any cord. 0; -ENODATA, -EAGAIN, -ENOMEM, -ESRCH: see fiber_times.
int read_times(Fiber* fiber, fiber_t handle, fiber_times_t* out);

// Reads the times of the cord of this generation. 0; -ENODATA, -EAGAIN, -ESRCH.
int read_times(Cord& cord, uint32_t generation, fiber_cord_times_t* out);

// Calls visit for each sum. by: a valid FIBER_BY_…. Returns the last result of visit; -ENODATA, -ENOMEM.
int each_sum(int by, int (*visit)(const fiber_times_sum_t* sum, void* arg), void* arg);

} // namespace fiberrt
