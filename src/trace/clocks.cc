// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the clocks by which Perfetto lays a trace over those of other programs.
#include "trace/clocks.h"

#include "core/environment.h"

#include <time.h>

namespace fiberrt::trace {

namespace {

int64_t read(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

} // namespace

Clocks clocks_now() {
    int64_t now = clock_now();
    if (simulated()) return {now, now, now};
    return {now, read(CLOCK_BOOTTIME), read(CLOCK_REALTIME)};
}

} // namespace fiberrt::trace
