// SPDX-License-Identifier: MIT OR Apache-2.0
// With an installed libfiberrt.so, the extension has its own copy of src/posix, but not what src/posix needs beyond
// fiberrt.h, which the shared library does not export. So there the calls of adopted libraries are never simulated, and
// their close waits for the other threads whose fibers use the descriptor, and may close the cord's own descriptors.
#include "api/adopted.h"
#include "fiberrt.h"
#include "sim/adopted.h"

namespace fiberrt {

int close_for_library(int fd) { return fiber_close(fd); }
int own_descriptors(int*) { return 0; }

bool simulation_wanted() { return false; }

// The others are called only in a simulation.
SimulatedCaller simulated_caller() { return SimulatedCaller::none; }
bool simulated_may_use(int) { return true; }
bool simulated_may_connect(const void*, uint64_t) { return true; }
int simulated_fault(int, bool, bool) { return 0; }
size_t simulated_length(int, size_t count, bool) { return count; }
bool simulated_signal() { return false; }
bool simulated_pause() { return false; }
bool simulated_has_clock() { return false; }
int64_t simulated_clock() { return 0; }
void simulated_trace(const char*, int64_t, int) {}

} // namespace fiberrt
