// SPDX-License-Identifier: MIT OR Apache-2.0
// Introspection: states, names and figures of fibers, statistics of cords, and the dump.
#include "api/api.h"
#include "base/copy_name.h"
#include "debug/describe.h"
#include "debug/dump.h"

#include <string.h>

using namespace fiberrt;

namespace {

// Copies the library's struct to the caller's, whose size may differ with the release that the caller was built with.
// Bytes that the library does not know become 0.
void copy_out(void* out, size_t size, const void* known, size_t known_size) {
    size_t common = size < known_size ? size : known_size;
    memcpy(out, known, common);
    memset(static_cast<char*>(out) + common, 0, size - common);
}

} // namespace

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
    if (!error) set_name(fiber, name);
    return error;
}

int fiber_info(fiber_t handle, fiber_info_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    fiber_info_t info;
    if (int error = describe(fiber, handle, &info)) return error;
    copy_out(out, size, &info, sizeof info);
    return 0;
}

int fiber_stats(fiber_stats_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    fiber_stats_t stats = stats_of(*cord);
    copy_out(out, size, &stats, sizeof stats);
    return 0;
}

int fiber_dump(int fd) { return dump(fd); }
