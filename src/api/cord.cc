// SPDX-License-Identifier: MIT OR Apache-2.0
// Cords: attributes, start, join, shutdown, names.
#include "core/cord.h"

#include "api/api.h"
#include "api/attr.h"
#include "base/copy_name.h"
#include "core/shutdown.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

using namespace fiberrt;

struct fiber_cord_attr {
    char name[cord_name_max] = "";
    bool has_affinity = false;
    cpu_set_t affinity;
};

namespace {

int find_cord(fiber_cord_t handle, Cord** out) { return cords.resolve(handle.id, out); }

int join_until(fiber_cord_t handle, void** result, int64_t timeout_ns) {
    if (timeout_ns < 0) return -EINVAL;
    Cord* here = cord_here();
    if (!here) return no_cord();
    Cord* cord;
    int error = find_cord(handle, &cord);
    if (error) return error;
    if (!cord->started) return -EINVAL;
    if (here->sched.current->sched.pending) return check_pending(*here, here->sched.current);
    if (cord == here) return -EDEADLK;
    return cord_join(*here, cord, id_generation(handle.id), result, deadline_after(*here, timeout_ns));
}

} // namespace

int fiber_cord_attr_create(fiber_cord_attr_t** out) { return api::make_attr(out); }

int fiber_cord_attr_destroy(fiber_cord_attr_t* attr) {
    free(attr);
    return 0;
}

int fiber_cord_attr_set_name(fiber_cord_attr_t* attr, const char* name) {
    if (!attr || !name) return -EINVAL;
    copy_name(attr->name, sizeof attr->name, name);
    return 0;
}

int fiber_cord_attr_set_affinity(fiber_cord_attr_t* attr, const int* cpus, size_t count) {
    if (!attr || (!cpus && count)) return -EINVAL;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < count; i++) {
        if (cpus[i] < 0 || cpus[i] >= CPU_SETSIZE) return -EINVAL;
        CPU_SET(size_t(cpus[i]), &set);
    }
    attr->affinity = set;
    attr->has_affinity = count > 0;
    return 0;
}

int fiber_cord_start(fiber_cord_t* out, const fiber_cord_attr_t* attr, void* (*fn)(void*), void* arg) {
    if (!out || !fn) return -EINVAL;
    CordStart start = {fn, arg, {}, nullptr, 0};
    if (attr) memcpy(start.name, attr->name, sizeof start.name);
    if (attr && attr->has_affinity) {
        start.affinity = &attr->affinity;
        start.affinity_size = sizeof attr->affinity;
    }
    return cord_start(start, &out->id);
}

int fiber_cord_join(fiber_cord_t cord, void** result) { return join_until(cord, result, FIBER_FOREVER); }

int fiber_cord_join_timeout(fiber_cord_t cord, void** result, int64_t timeout_ns) {
    return join_until(cord, result, timeout_ns);
}

int fiber_cord_self(fiber_cord_t* out) {
    if (!out) return -EINVAL;
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    out->id = CordTable::id_of(cord);
    return 0;
}

int fiber_cord_name(fiber_cord_t handle, char* buffer, size_t size) {
    if (!buffer || !size) return -EINVAL;
    Cord* cord;
    int error = find_cord(handle, &cord);
    if (error) return error;
    char name[cord_name_max];
    {
        Locked locked(cord->lock);
        if (cord->generation.load(std::memory_order_relaxed) != id_generation(handle.id)) return -ESRCH;
        memcpy(name, cord->name, sizeof name);
    }
    size_t length = strlen(name);
    copy_name(buffer, size, name);
    return int(length);
}

int fiber_cord_shutdown(fiber_cord_t handle, int64_t grace_ns, int64_t deadline_ns) {
    if (grace_ns < 0 || deadline_ns < grace_ns) return -EINVAL;
    Cord* here = cord_here();
    if (!here) return no_cord();
    Cord* cord;
    int error = find_cord(handle, &cord);
    if (error) return error;
    if (here->sched.current->sched.pending) return check_pending(*here, here->sched.current);
    int64_t grace = deadline_after(*here, grace_ns);
    int64_t deadline = deadline_after(*here, deadline_ns);
    if (cord == here) return cord_shutdown(*cord, grace, deadline);
    return cord_shutdown_elsewhere(*here, cord, handle.id, grace, deadline);
}
