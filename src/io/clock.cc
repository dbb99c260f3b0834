// SPDX-License-Identifier: MIT OR Apache-2.0
// The library's one clock.
#include "io/backend.h"

#include <time.h>

namespace fiberrt {

int64_t clock_now() {
    if (simulated) [[unlikely]]
        return simulation_now();
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

} // namespace fiberrt
