// SPDX-License-Identifier: MIT OR Apache-2.0
// Clocks of adopted libraries in a simulation.
#include "posix/simulated.h"

namespace fiberrt::posix::simulated {

namespace {

// The simulated time of day when the simulated machine booted, in seconds since 1970.
constexpr int64_t boot_s = 2'000'000'000;
constexpr int64_t second_ns = 1'000'000'000;

timespec now_since(int64_t begin_s) {
    int64_t ns = simulated_clock();
    return {begin_s + ns / second_ns, long(ns % second_ns)};
}

} // namespace

int clock_gettime(clockid_t clock, timespec* time) noexcept {
    if (!process || !simulated_has_clock()) return ::clock_gettime(clock, time);
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI: *time = now_since(boot_s); return 0;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME: *time = now_since(0); return 0;
    default: return ::clock_gettime(clock, time);
    }
}

int gettimeofday(timeval* time, void* zone) noexcept {
    if (!process || !simulated_has_clock()) return ::gettimeofday(time, zone);
    timeval real;
    if (zone) (void)::gettimeofday(&real, zone);
    if (!time) return 0;
    timespec now;
    simulated::clock_gettime(CLOCK_REALTIME, &now);
    *time = {now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t* out) noexcept {
    if (!process || !simulated_has_clock()) return ::time(out);
    timespec now;
    simulated::clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

} // namespace fiberrt::posix::simulated
