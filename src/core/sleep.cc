// SPDX-License-Identifier: MIT OR Apache-2.0
// Sleeps.
// fuzz: switch 35 %
#include "core/sleep.h"

#include "core/yield.h"
#include "core/backend.h"

namespace fiberrt {

namespace {

struct Tick {
    int64_t due;
    int64_t missed; // earlier ticks, which are past
};

// The first of the times last + period, last + 2 * period, ... that is not before now.
Tick next_tick(int64_t last, int64_t period_ns, int64_t now) {
    int64_t missed = now > last ? (now - last - 1) / period_ns : 0;
    int64_t due;
    if (__builtin_add_overflow(last + missed * period_ns, period_ns, &due)) due = never;
    return {due, missed};
}

int64_t sleep_until(Cord& cord, int64_t deadline) {
    Wait wait;
    wait.what = WaitFor::time;
    wait.stop = stop_at_once;
    return park(cord, wait, deadline);
}

} // namespace

int sleep_for(Cord& cord, int64_t ns) {
    if (ns == 0) return poll_and_reschedule(cord, cord.sched.current);
    return int(sleep_until(cord, deadline_after(cord, ns)));
}

int64_t sleep_until_tick(Cord& cord, int64_t* tick_ns, int64_t period_ns) {
    int64_t now = clock_now();
    if (*tick_ns == 0) *tick_ns = now;
    Tick tick = next_tick(*tick_ns, period_ns, now);
    if (tick.due != never) cord.coalescing.note_deadline(tick.due, tick.due - now);
    if (int64_t error = sleep_until(cord, tick.due)) return error;
    *tick_ns = tick.due;
    return tick.missed;
}

} // namespace fiberrt
