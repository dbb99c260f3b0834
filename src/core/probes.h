// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether a tool has attached to the library's static probes (src/trace/probes.cc). The tool, or the kernel for it,
// increments a semaphore of each probe that it attaches to. Cords look at the semaphores when they poll.
#pragma once

#include "base/relaxed.h"

#include <stdint.h>

namespace fiberrt {

// X(probe): the probes, in the order of their semaphores.
#define FIBERRT_PROBES(X) X(start) X(exit) X(switch) X(park) X(wake) X(submit) X(complete)

#if defined FIBERRT_HAVE_SDT

// Eight semaphores of 16 bits, the last one not used.
extern "C" [[gnu::visibility("hidden")]] const volatile uint64_t fiberrt_probe_semaphores[2];

inline bool probes_wanted() { return fiberrt_probe_semaphores[0] | fiberrt_probe_semaphores[1]; }

#else

inline bool probes_wanted() { return false; }

#endif

extern Relaxed<bool> probes_fire;             // whether the probes are on
extern Relaxed<void (*)(bool)> probes_follow; // turns the probes on and off; null: the library has none

inline void probes_look() {
    bool wanted = probes_wanted();
    if (wanted != probes_fire) [[unlikely]] {
        if (auto follow = +probes_follow) follow(wanted);
    }
}

} // namespace fiberrt
