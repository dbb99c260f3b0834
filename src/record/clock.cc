// SPDX-License-Identifier: MIT OR Apache-2.0
// Chooses the recorder's clock, and measures its rate.
#include "record/clock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#if defined __x86_64__
#include <cpuid.h>
#endif

namespace fiberrt {

namespace {

// Nanoseconds for each tick, as a fraction of 2^32. Set once, before the first cord is recorded.
constexpr int fraction_bits = 32;
uint64_t ns_per_tick = uint64_t(1) << fraction_bits;
uint64_t ticks_per_ns = uint64_t(1) << fraction_bits;
bool by_counter;
bool chosen;

#if defined __x86_64__

// Whether the kernel uses the counter for its own clock, or could. The kernel compares the counters of all processors,
// and drops a counter that does not run evenly. True if the file that tells it is missing: a container may hide it.
bool kernel_trusts_counter() {
    int fd = ::open("/sys/devices/system/clocksource/clocksource0/available_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return true;
    char text[256];
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return true;
    text[length] = '\0';
    return strstr(text, "tsc");
}

bool counter_is_even() {
    int allowed = PR_TSC_ENABLE; // the process may have forbidden itself the instruction
    if (prctl(PR_GET_TSC, &allowed, 0, 0, 0) == 0 && allowed != PR_TSC_ENABLE) return false;
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned power_leaf = 0x80000007, invariant_bit = 1 << 8;
    return __get_cpuid(power_leaf, &a, &b, &c, &d) && (d & invariant_bit) && kernel_trusts_counter();
}

#else

bool counter_is_even() { return FIBERRT_HAS_COUNTER; }

#endif

// Reads both clocks as close together as some tries allow.
TimePair pair_of_counter() {
    TimePair best = {};
    uint64_t width = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = CounterClock::now();
        int64_t ns = clock_now();
        uint64_t after = CounterClock::now();
        if (after - before >= width) continue;
        width = after - before;
        best = {before + width / 2, ns};
    }
    return best;
}

uint64_t scaled(uint64_t value, uint64_t factor) {
    __extension__ using Wide = unsigned __int128;
    return uint64_t(Wide(value) * factor >> fraction_bits);
}

} // namespace

void ticks_begin() {
    if (chosen) return;
    chosen = true;
    if (!FIBERRT_HAS_COUNTER || environment || !counter_is_even()) return;
    constexpr int64_t measured_ns = 1'000'000;
    TimePair begin = pair_of_counter();
    TimePair end = begin;
    // The program may have replaced clock_gettime by a clock that stands still.
    for (int tries = 0; tries < 100'000 && end.ns - begin.ns < measured_ns; tries++) end = pair_of_counter();
    if (end.ns - begin.ns < measured_ns) return;
    uint64_t ticks = end.ticks - begin.ticks;
    auto ns = uint64_t(end.ns - begin.ns);
    if (int64_t(ticks) <= 0 || ticks / ns > 100 || ns / ticks > 1000) return; // no counter is that fast or slow
    __extension__ using Wide = unsigned __int128;
    ns_per_tick = uint64_t((Wide(ns) << fraction_bits) / ticks);
    ticks_per_ns = uint64_t((Wide(ticks) << fraction_bits) / ns);
    by_counter = true;
}

bool ticks_are_of_counter() { return by_counter; }
uint64_t ticks_now() { return by_counter ? CounterClock::now() : NanosecondClock::now(); }
int64_t ns_of_ticks(uint64_t ticks) { return int64_t(ticks) < 0 ? 0 : int64_t(scaled(ticks, ns_per_tick)); }
uint64_t ticks_of_ns(int64_t ns) { return scaled(uint64_t(ns), ticks_per_ns); }

TimePair time_pair() {
    if (by_counter) return pair_of_counter();
    int64_t now = clock_now();
    return {uint64_t(now), now};
}

} // namespace fiberrt
