// SPDX-License-Identifier: MIT OR Apache-2.0
// Introspection: states, names and figures of fibers, statistics of cords, and the dump.
#include "agent/metrics.h"
#include "api/api.h"
#include "base/copy_name.h"
#include "base/report.h"
#include "debug/code_frames.h"
#include "debug/describe.h"
#include "debug/dump.h"
#include "trace/session.h"
#include "trace/tap.h"

#include <stddef.h>
#include <string.h>

using namespace fiberrt;

int fiber_state(fiber_t handle) {
    Fiber* fiber;
    int where = find(handle, &fiber);
    return where < 0 ? where : state_of(fiber, handle);
}

int fiber_name(fiber_t handle, char* buffer, size_t size) {
    if (!buffer || !size) return -EINVAL;
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    char name[FIBER_NAME_MAX];
    if (int error = name_of(fiber, handle, name)) return error;
    copy_name(buffer, size, name);
    return int(strlen(name));
}

int fiber_set_name(fiber_t handle, const char* name) {
    if (!name) return -EINVAL;
    Fiber* fiber;
    int error = own_fiber(handle, &fiber);
    if (error) return error;
    set_name(fiber, name);
    if (trace::number) trace::note_name(*this_cord, fiber);
    return 0;
}

int fiber_info(fiber_t handle, fiber_info_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    fiber_info_t info;
    bool briefly = size <= offsetof(fiber_info_t, parent_scope);
    int error = briefly ? describe_briefly(fiber, handle, &info) : describe(fiber, handle, &info);
    if (error) return error;
    api::copy_out(out, size, &info, sizeof info);
    return 0;
}

int fiber_stats(fiber_stats_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    fiber_stats_t stats = stats_of(*cord);
    api::copy_out(out, size, &stats, sizeof stats);
    return 0;
}

int fiber_backtrace(fiber_t handle, void** frames, int max) {
    if (!frames || max < 1) return -EINVAL;
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    const void* caller = __builtin_extract_return_addr(__builtin_return_address(0));
    return backtrace_of(fiber, handle, caller, frames, max);
}

// Whether a name has 1 to 15 letters a to z.
static bool is_language(const char* name) {
    size_t length = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz") : 0;
    return length && length < language_most && !name[length];
}

int fiber_frames_reader_set(unsigned kind, const char* language, fiber_frames_reader_t read) {
    if (!kind || kind > FIBER_TAG_KIND_MAX || (read && !is_language(language))) return -EINVAL;
    frames_reader_set(kind, language, read);
    return 0;
}

int fiber_code_frames(fiber_t handle, fiber_code_frame_t* frames, int max) {
    if (!frames || max < 1) return -EINVAL;
    Fiber* fiber;
    int where = find(handle, &fiber);
    return where < 0 ? where : code_frames_of(fiber, handle, frames, max);
}

int fiber_each(int (*visit)(fiber_t fiber, void* arg), void* arg) { return visit ? each_fiber(visit, arg) : -EINVAL; }

int fiber_cord_stats(fiber_cord_t handle, fiber_stats_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    Cord* cord;
    if (int error = cords.resolve(handle.id, &cord)) return error;
    fiber_stats_t stats;
    if (int error = stats_of_any(*cord, id_generation(handle.id), &stats)) return error;
    api::copy_out(out, size, &stats, sizeof stats);
    return 0;
}

int fiber_dump(int fd) { return dump(fd, {}); }

int fiber_dump_as(int fd, unsigned flags) {
    if (flags & ~dump_flags_known) return -EINVAL;
    return dump(fd, {flags, __builtin_extract_return_addr(__builtin_return_address(0))});
}

int fiber_metrics_write(int fd) { return write_metrics(fd, Report::for_ever); }
