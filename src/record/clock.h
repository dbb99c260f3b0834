// SPDX-License-Identifier: MIT OR Apache-2.0
// The recorder's clock. It counts ticks: of the processor's counter, if that runs evenly on all processors, else
// nanoseconds. One choice for the process, made when something is first recorded.
//
//   x86-64    rdtsc, if the processor says that its rate never changes, and the kernel uses or offers it as a clock
//   AArch64   the virtual counter, which the architecture makes even
//   else, and in a simulation: clock_now()
#pragma once

#include "core/environment.h"

#include <stdint.h>

namespace fiberrt {

struct NanosecondClock {
    static uint64_t now() { return uint64_t(clock_now()); }
};

#if defined __x86_64__ || defined __aarch64__
#define FIBERRT_HAS_COUNTER 1
struct CounterClock {
    static uint64_t now() {
#if defined __x86_64__
        return __builtin_ia32_rdtsc();
#else
        uint64_t ticks;
        asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
#endif
    }
};
#else
#define FIBERRT_HAS_COUNTER 0
using CounterClock = NanosecondClock;
#endif

// Chooses the clock, once; measures the counter's rate, which takes a millisecond. The caller holds a mutex.
void ticks_begin();

// Valid after ticks_begin().
bool ticks_are_of_counter();
uint64_t ticks_now();

// A duration in nanoseconds. 0 for one whose highest bit is set: it is negative, as the counters of two processors may
// differ.
int64_t ns_of_ticks(uint64_t ticks);
uint64_t ticks_of_ns(int64_t ns);

// One moment, as both clocks have it.
struct TimePair {
    uint64_t ticks;
    int64_t ns; // clock_now()
};
TimePair time_pair();

// The time, as clock_now() has it, of a moment near the pair. The measured rate is off by about 1/50,000: make a new
// pair from time to time.
inline int64_t time_of_ticks(const TimePair& pair, uint64_t ticks) {
    return ticks >= pair.ticks ? pair.ns + ns_of_ticks(ticks - pair.ticks) : pair.ns - ns_of_ticks(pair.ticks - ticks);
}

} // namespace fiberrt
