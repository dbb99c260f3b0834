// SPDX-License-Identifier: MIT OR Apache-2.0
// The library's one clock, and the process's environment.
#include "core/environment.h"

#include <time.h>

namespace fiberrt {

constinit Relaxed<const Environment*> environment;

int64_t clock_now() {
    if (environment) [[unlikely]]
        return environment->now();
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

} // namespace fiberrt
