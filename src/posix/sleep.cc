// SPDX-License-Identifier: MIT OR Apache-2.0
// Sleeps.
#include "posix/calls.h"
#include "posix/simulated.h"
#include "posix/wait.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

namespace fiberrt::posix {

namespace {

constexpr int cannot_wait = -1; // instead of an errno value: the fiber cannot wait here

// Stores the time left, if the caller asks for it. Returns `error`, or EFAULT: the kernel writes to the address first,
// and so checks it.
int store_left(int error, int64_t deadline, timespec* left) {
    if (!left) return error;
    if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, left)) return EFAULT;
    *left = timespec_of(left_until(deadline));
    return error;
}

// Sleeps. Returns 0, an errno value, or cannot_wait.
int sleep_for(int64_t ns, timespec* left) {
    KeepErrno errno_kept;
    int64_t deadline = deadline_after(ns);
    switch (wait_time(ns)) {
    case Next::block: return cannot_wait;
    case Next::fail: return store_left(errno, deadline, left);
    default: return 0;
    }
}

int failed_with(int error) {
    if (!error) return 0;
    errno = error;
    return -1;
}

// Waits for a timer of the kernel, which follows the clock if the clock is set meanwhile.
int sleep_by_timer(clockid_t clock, int flags, const timespec& time) {
    KeepErrno errno_kept;
    int timer = timerfd_create(clock, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer < 0) return cannot_wait;
    itimerspec when = {{}, time};
    if (!time.tv_sec && !time.tv_nsec) when.it_value.tv_nsec = 1; // zero would stop the timer
    Next next = Next::block;
    if (!timerfd_settime(timer, flags & TIMER_ABSTIME ? TFD_TIMER_ABSTIME : 0, &when, nullptr))
        next = wait_ready(timer, POLLIN, FIBER_FOREVER);
    int error = errno;
    ::close(timer);
    return next == Next::block ? cannot_wait : next == Next::fail ? error : 0;
}

bool in_simulation() {
    const char* backend = fiber_backend_name();
    return backend && !strcmp(backend, "sim");
}

// Sleeps for a duration of the clock: only CLOCK_BOOTTIME goes on while the machine is suspended.
int sleep_for_on(clockid_t clock, const timespec& time, timespec* left) {
    if (clock != CLOCK_BOOTTIME || in_simulation()) return sleep_for(nanoseconds(time), left);
    int64_t deadline = deadline_after(nanoseconds(time));
    int error = sleep_by_timer(clock, 0, time);
    return error > 0 ? store_left(error, deadline, left) : error;
}

// Sleeps until a time of the clock.
int sleep_until(clockid_t clock, const timespec& time) {
    // In a simulation only the library's own clock goes on while fibers wait.
    if (clock != CLOCK_MONOTONIC && !in_simulation()) return sleep_by_timer(clock, TIMER_ABSTIME, time);
    timespec now;
    if (simulated::clock_gettime(clock, &now)) return cannot_wait;
    int64_t ns = nanoseconds(time) - nanoseconds(now);
    return sleep_for(ns > 0 ? ns : 0, nullptr);
}

} // namespace

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
    bool is_known = clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME;
    if (!is_known || !may_wait() || !is_readable(time) || !is_valid(*time))
        return ::clock_nanosleep(clock, flags, time, left);
    timespec asked = *time; // left may be the same variable
    int error = flags & TIMER_ABSTIME ? sleep_until(clock, asked) : sleep_for_on(clock, asked, left);
    return error == cannot_wait ? ::clock_nanosleep(clock, flags, time, left) : error;
}

int nanosleep(const timespec* time, timespec* left) {
    if (!may_wait() || !is_readable(time) || !is_valid(*time)) return ::nanosleep(time, left);
    int error = sleep_for(nanoseconds(*time), left);
    return error == cannot_wait ? ::nanosleep(time, left) : failed_with(error);
}

int usleep(useconds_t us) {
    if (!may_wait()) return ::usleep(us);
    int error = sleep_for(us * INT64_C(1000), nullptr);
    return error == cannot_wait ? ::usleep(us) : failed_with(error);
}

// Returns the seconds left, rounded down as by the C library, so a caller that sleeps again until none are left comes
// to an end.
unsigned sleep(unsigned seconds) {
    if (!may_wait()) return ::sleep(seconds);
    timespec left = {};
    int error = sleep_for(seconds * INT64_C(1'000'000'000), &left);
    return error == cannot_wait ? ::sleep(seconds) : unsigned(left.tv_sec);
}

} // namespace fiberrt::posix
