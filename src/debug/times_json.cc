// SPDX-License-Identifier: MIT OR Apache-2.0
#include "debug/times_json.h"

#include "core/handles.h"
#include "debug/times.h"

namespace fiberrt {

namespace {

void put_spread(Json& out, const char* key, const fiber_spread_t& spread) {
    out.object(key);
    out.number("count", spread.count);
    out.signed_number("p50_ns", spread.p50_ns);
    out.signed_number("p90_ns", spread.p90_ns);
    out.signed_number("p99_ns", spread.p99_ns);
    out.signed_number("p999_ns", spread.p999_ns);
    out.signed_number("most_ns", spread.most_ns);
    out.end_object();
}

} // namespace

void put_times_of_fiber(Json& out, uint64_t id) {
    Fiber* fiber;
    fiber_times_t times;
    if (fibers.resolve(id, &fiber) != 0 || read_times(fiber, {id}, &times) != 0) return;
    int64_t waited = 0;
    for (int64_t each : times.wait_ns) waited += each;
    out.number("turns", times.turns);
    out.signed_number("run_ns", times.run_ns);
    out.signed_number("runnable_ns", times.runnable_ns);
    out.signed_number("wait_ns", waited);
    out.object("waits_ns");
    for (int kind = 0; kind < FIBER_WAIT_KINDS; kind++) {
        if (times.wait_ns[kind]) out.signed_number(wait_kind_names[kind], times.wait_ns[kind]);
    }
    out.end_object();
}

void put_times_of_cord(Json& out, Cord& cord, uint32_t generation) {
    fiber_cord_times_t times;
    if (read_times(cord, generation, &times) != 0) return;
    out.signed_number("elapsed_ns", times.elapsed_ns);
    out.signed_number("run_ns", times.run_ns);
    out.signed_number("poll_ns", times.poll_ns);
    out.signed_number("sleep_ns", times.sleep_ns);
    put_spread(out, "slice", times.slice);
    put_spread(out, "lag", times.lag);
    put_spread(out, "poll", times.poll);
}

} // namespace fiberrt
