// SPDX-License-Identifier: MIT OR Apache-2.0
// What the simulation decides for the calls of adopted libraries (posix/simulated.h): which descriptors they may use,
// faults, the time, and whether other fibers run before a call returns.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

// Whether this process is a simulation, or will be one from its first cord on.
bool simulation_wanted();

enum class SimulatedCaller : uint8_t {
    none,     // a thread that has no cord of the simulation: the C library serves it
    fiber,    // it may wait
    noswitch, // it must not switch: if it waited, the only thread of the simulation would stop for ever
};
SimulatedCaller simulated_caller();

// Whether the simulation can repeat what happens on a descriptor: its other end is in this process. True for a number
// that is not open: the call reports that.
bool simulated_may_use(int fd);
bool simulated_may_connect(const void* address, uint64_t length);

// A fault: the errno with which a transfer fails before it has begun, or 0. waits: the call would wait until the
// descriptor is ready. A reset connection is shut down.
int simulated_fault(int fd, bool writes, bool waits);
// A fault: how many of count bytes the transfer may move.
size_t simulated_length(int fd, size_t count, bool writes);
// A fault: a signal ends the caller's wait.
bool simulated_signal();

// A choice: whether the other fibers run before a call that did not wait returns.
bool simulated_pause();

// Whether the calling thread lives in the simulated time. Before the first cord, only the main thread does.
bool simulated_has_clock();
// Nanoseconds since the boot of the simulated machine. Passes by each call, so a library that waits by looking at the
// clock makes progress.
int64_t simulated_clock();

// A line of the trace: the call and its result; error: errno, if the result is -1.
void simulated_trace(const char* call, int64_t result, int error);

} // namespace fiberrt
