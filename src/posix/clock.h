// SPDX-License-Identifier: MIT OR Apache-2.0
// The absolute time at which a call of the C library gives up, and its clock. left() reads the clock each time, so a
// change of the clock's time takes effect during the wait.
#pragma once

#include "fiberrt.h"

#include <stdint.h>
#include <time.h>

namespace fiberrt::posix {

struct Limit {
    const timespec* time = nullptr; // null: the call waits for ever
    clockid_t clock = CLOCK_REALTIME;

    // Whether the C library accepts the clock, and the time.
    bool has_known_clock() const { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }
    bool is_valid() const { return !time || (time->tv_nsec >= 0 && time->tv_nsec < 1'000'000'000); }

    int64_t left() const; // in nanoseconds; 0: the time is over; FIBER_FOREVER: there is no limit
};

} // namespace fiberrt::posix
