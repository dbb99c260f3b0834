// SPDX-License-Identifier: MIT OR Apache-2.0
// Pools: attributes, create, submit, close, and binding threads.
#include "pool/pool.h"

#include "api/api.h"
#include "api/attr.h"
#include "base/copy_name.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

using namespace fiberrt;

struct fiber_pool_attr {
    int workers = -1; // as many as there are processors
    fiber_attr tasks; // stack and guard for the fibers that run tasks
    bool has_affinity = false;
    bool one_of = false;
    int64_t spin_ns = -1;
    void (*init)(void*, int) = nullptr;
    void* init_arg = nullptr;
    int task_limit = 0;
    bool bound_help = true;
    char name[cord_name_max] = "";
    cpu_set_t affinity;
};

static_assert(FIBER_POOL_WORKERS_MAX == Pool::most);

namespace {

uint32_t processors() {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return uint32_t(count < int(Pool::most) ? count : int(Pool::most));
}

int submit(fiber_pool_t pool, void* (*fn)(void*), void* arg, bool same_thread) {
    return fn ? pool_submit(pool.id, {fn, arg, nullptr}, same_thread) : -EINVAL;
}

// Runs a call that may wait, unless a cancel, interrupt or deadline of the caller is pending.
int unless_stopped(fiber_pool_t pool, int (*call)(Cord& cord, uint64_t id)) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Pool* found;
    if (int error = pools.resolve(pool.id, &found)) return error;
    if (cord->sched.current->sched.pending) return check_pending(*cord, cord->sched.current);
    return call(*cord, pool.id);
}

} // namespace

int fiber_pool_attr_create(fiber_pool_attr_t** out) { return api::make_attr(out); }

int fiber_pool_attr_destroy(fiber_pool_attr_t* attr) {
    free(attr);
    return 0;
}

int fiber_pool_attr_set_workers(fiber_pool_attr_t* attr, int count) {
    if (!attr || count < 0 || count > FIBER_POOL_WORKERS_MAX) return -EINVAL;
    attr->workers = count;
    return 0;
}

int fiber_pool_attr_set_stack_size(fiber_pool_attr_t* attr, size_t bytes) {
    return attr ? fiber_attr_set_stack_size(&attr->tasks, bytes) : -EINVAL;
}

int fiber_pool_attr_set_guard_size(fiber_pool_attr_t* attr, size_t bytes) {
    return attr ? fiber_attr_set_guard_size(&attr->tasks, bytes) : -EINVAL;
}

int fiber_pool_attr_set_affinity(fiber_pool_attr_t* attr, const int* cpus, size_t count, int policy) {
    if (!attr || (!cpus && count) || policy < FIBER_POOL_ANY_OF || policy > FIBER_POOL_ONE_OF) return -EINVAL;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < count; i++) {
        if (cpus[i] < 0 || cpus[i] >= CPU_SETSIZE) return -EINVAL;
        CPU_SET(size_t(cpus[i]), &set);
    }
    attr->affinity = set;
    attr->has_affinity = count > 0;
    attr->one_of = policy == FIBER_POOL_ONE_OF;
    return 0;
}

int fiber_pool_attr_set_spin(fiber_pool_attr_t* attr, int64_t spin_ns) {
    if (!attr || spin_ns < 0) return -EINVAL;
    constexpr int64_t most = INT64_MAX / 2; // adding it to a time must not overflow
    attr->spin_ns = spin_ns < most ? spin_ns : most;
    return 0;
}

int fiber_pool_attr_set_init(fiber_pool_attr_t* attr, void (*init)(void*, int), void* arg) {
    if (!attr) return -EINVAL;
    attr->init = init;
    attr->init_arg = arg;
    return 0;
}

int fiber_pool_attr_set_name(fiber_pool_attr_t* attr, const char* name) {
    if (!attr || !name) return -EINVAL;
    copy_name(attr->name, sizeof attr->name, name);
    return 0;
}

int fiber_pool_attr_set_task_limit(fiber_pool_attr_t* attr, int count) {
    if (!attr || count < 0) return -EINVAL;
    attr->task_limit = count;
    return 0;
}

int fiber_pool_attr_set_bound_help(fiber_pool_attr_t* attr, int help) {
    if (!attr) return -EINVAL;
    attr->bound_help = help != 0;
    return 0;
}

int fiber_pool_create(fiber_pool_t* out, const fiber_pool_attr_t* attr) {
    if (!out) return -EINVAL;
    fiber_pool_attr defaults;
    if (!attr) attr = &defaults;
    PoolStart start = {};
    start.workers = attr->workers < 0 ? processors() : uint32_t(attr->workers);
    start.stack_class = attr->tasks.stack_class;
    start.spin_ns = attr->spin_ns;
    start.init = attr->init;
    start.init_arg = attr->init_arg;
    start.task_limit = uint32_t(attr->task_limit);
    start.bound_help = attr->bound_help;
    memcpy(start.name, attr->name, sizeof start.name);
    start.affinity = attr->has_affinity ? &attr->affinity : nullptr;
    start.one_of = attr->one_of;
    return pool_create(start, &out->id);
}

int fiber_pool_submit(fiber_pool_t pool, void* (*fn)(void*), void* arg) { return submit(pool, fn, arg, false); }

int fiber_pool_submit_flags(fiber_pool_t pool, void* (*fn)(void*), void* arg, unsigned flags) {
    if (flags & ~FIBER_TASK_SAME_THREAD) return -EINVAL;
    return submit(pool, fn, arg, flags & FIBER_TASK_SAME_THREAD);
}

int fiber_pool_bind(fiber_pool_t pool) {
    Cord* cord = cord_here();
    return cord ? pool_bind(*cord, pool.id) : no_cord();
}

int fiber_pool_unbind(fiber_pool_t pool) { return unless_stopped(pool, pool_unbind); }

int fiber_pool_close(fiber_pool_t pool) { return unless_stopped(pool, pool_close); }

int fiber_attr_set_pool(fiber_attr_t* attr, fiber_pool_t pool) {
    if (!attr) return -EINVAL;
    Pool* found;
    int error = pools.resolve(pool.id, &found);
    if (!error) attr->pool = pool.id;
    return error;
}

int fiber_pool_stats(fiber_pool_t pool, fiber_pool_stats_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    fiber_pool_stats_t stats;
    if (int error = pool_stats(pool.id, &stats)) return error;
    api::copy_out(out, size, &stats, sizeof stats);
    return 0;
}
