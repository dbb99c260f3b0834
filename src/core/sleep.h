// SPDX-License-Identifier: MIT OR Apache-2.0
// Sleeps, for a time or until the next tick of a series.
#pragma once

#include "core/scheduler.h"

namespace fiberrt {

// 0, or why the sleep ended early.
int sleep_for(Cord& cord, int64_t ns);

// Sleeps until the first of the ticks *tick_ns + period_ns, *tick_ns + 2 * period_ns, ... that is not past, and stores
// it. *tick_ns 0: the series begins now. Returns the number of ticks missed, or why the sleep ended early.
int64_t sleep_until_tick(Cord& cord, int64_t* tick_ns, int64_t period_ns);

} // namespace fiberrt
