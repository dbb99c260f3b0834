// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces, and what a program adds to them.
#include "api/api.h"
#include "trace/session.h"
#include "trace/tap.h"

#include <stddef.h>
#include <string.h>

using namespace fiberrt;

namespace {

constexpr size_t first_size = offsetof(fiber_trace_t, ring_events);

bool ends_within_a_member(size_t size) {
    return size != sizeof(const char*) && size != first_size && size < sizeof(fiber_trace_t);
}

// The calling thread's cord, if there is a trace. Null: *error says what the call returns.
inline Cord* traced_cord(int* error) {
    Cord* cord = cord_here();
    *error = cord ? 0 : no_cord();
    return cord;
}

} // namespace

int fiber_trace_start(const fiber_trace_t* options, size_t size) {
    if (!options || !size || ends_within_a_member(size)) return -EINVAL;
    fiber_trace_t known = {};
    memcpy(&known, options, size < sizeof known ? size : sizeof known);
    const auto* given = reinterpret_cast<const unsigned char*>(options);
    for (size_t i = sizeof known; i < size; i++) {
        if (given[i]) return -ENOTSUP;
    }
    return trace::start(known);
}

int fiber_trace_stop(void) { return trace::stop(); }

int fiber_trace_stats(fiber_trace_stats_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    fiber_trace_stats_t stats = trace::stats();
    api::copy_out(out, size, &stats, sizeof stats);
    return 0;
}

int fiber_trace_begin(const char* name) {
    if (!trace::number) [[likely]]
        return 0;
    if (!name) return -EINVAL;
    int error;
    if (Cord* cord = traced_cord(&error)) trace::note_begin(*cord, name);
    return error;
}

int fiber_trace_end(void) {
    if (!trace::number) [[likely]]
        return 0;
    int error;
    if (Cord* cord = traced_cord(&error)) trace::note_end(*cord);
    return error;
}

int fiber_trace_counter(const char* name, int64_t value) {
    if (!trace::number) [[likely]]
        return 0;
    if (!name) return -EINVAL;
    int error;
    if (Cord* cord = traced_cord(&error)) trace::note_value(*cord, name, value);
    return error;
}
