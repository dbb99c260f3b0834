// SPDX-License-Identifier: MIT OR Apache-2.0
// A trace of the process: from its start to its stop, all cords note their events in rings, and a thread writes them.
// One trace at a time. In a simulation there is no thread: a cord whose ring is half full empties all rings, and so
// does the stop.
#pragma once

#include "base/relaxed.h"
#include "fiberrt.h"
#include "trace/ring.h"

#include <stdint.h>

namespace fiberrt::trace {

int start(const fiber_trace_t& options);
int stop(); // 0, or the first error of the file; -ESRCH: there is no trace
fiber_trace_stats_t stats();

// Whether there is a trace: its number, else 0.
extern Relaxed<uint32_t> number;

// A ring for the calling cord, which the writer empties from now on. Null: there is no trace any more, or no memory.
Ring* ring_make();

// For fork. In the child there is no trace, and the file is the parent's.
void lock();
void unlock();
void forked();

} // namespace fiberrt::trace
