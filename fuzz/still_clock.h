// SPDX-License-Identifier: MIT OR Apache-2.0
// Replaces the library's clock and its sleep: the linker uses these functions in the place of clock_gettime and syscall
// (CMakeLists.txt).
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

// Provided by the target:
int64_t time_now();   // the time of CLOCK_MONOTONIC
void thread_sleeps(); // the thread would sleep until the next deadline

extern "C" {

int __real_clock_gettime(clockid_t clock, timespec* out);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);

int __wrap_clock_gettime(clockid_t clock, timespec* out) {
    if (clock != CLOCK_MONOTONIC) return __real_clock_gettime(clock, out);
    int64_t now = time_now();
    *out = {now / 1'000'000'000, now % 1'000'000'000};
    return 0;
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (number != SYS_futex || (int(b) & FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET)
        return __real_syscall(number, a, b, c, d, e, f);
    thread_sleeps();
    errno = ETIMEDOUT;
    return -1;
}
}
