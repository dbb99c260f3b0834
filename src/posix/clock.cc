// SPDX-License-Identifier: MIT OR Apache-2.0
// The time left until a limit.
#include "posix/clock.h"

#include "posix/simulated.h"
#include "posix/wait.h"

namespace fiberrt::posix {

int64_t Limit::left() const {
    if (!time) return FIBER_FOREVER;
    if (time->tv_sec < 0) return 0;
    // fiber_now is CLOCK_MONOTONIC, or the time of a simulation.
    if (clock == CLOCK_MONOTONIC) return left_until(nanoseconds(*time));
    timespec now;
    if (simulated::clock_gettime(clock, &now)) return 0;
    int64_t until = nanoseconds(*time), since = nanoseconds(now);
    if (until == FIBER_FOREVER) return FIBER_FOREVER;
    return until > since ? until - since : 0;
}

} // namespace fiberrt::posix
