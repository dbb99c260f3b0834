// SPDX-License-Identifier: MIT OR Apache-2.0
// Sleeps of adopted libraries in a simulation.
#include "posix/simulated.h"
#include "posix/wait.h"

namespace fiberrt::posix::simulated {

namespace {

// Whether the simulation injects a fault: a signal that ends the caller's sleep at its beginning.
bool is_interrupted(const char* call) {
    if (simulated_caller() != SimulatedCaller::fiber || !simulated_signal()) return false;
    simulated_trace(call, -1, EINTR);
    errno = EINTR;
    return true;
}

} // namespace

unsigned sleep(unsigned seconds) {
    KeepErrno keep;
    return seconds && is_interrupted("sleep") ? seconds : posix::sleep(seconds);
}

int usleep(useconds_t us) { return us && is_interrupted("usleep") ? -1 : posix::usleep(us); }

int nanosleep(const timespec* time, timespec* left) {
    if (!time || !is_interrupted("nanosleep")) return posix::nanosleep(time, left);
    if (left) *left = *time;
    return -1;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
    KeepErrno keep;
    if (!time || !is_interrupted("clock_nanosleep")) return posix::clock_nanosleep(clock, flags, time, left);
    if (left && !(flags & TIMER_ABSTIME)) *left = *time;
    return EINTR;
}

} // namespace fiberrt::posix::simulated
