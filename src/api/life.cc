// SPDX-License-Identifier: MIT OR Apache-2.0
// The life of fibers: new, start, join, end.
// fuzz: switch 65 %
#include "core/life.h"

#include "api/api.h"
#include "api/attr.h"
#include "core/noswitch.h"
#include "core/spawn.h"

using namespace fiberrt;

namespace {

// Waits for a fiber's end. takes: the caller gets the result, and the handle is stale then. A template, so that join is
// inlined.
template <bool takes>
int wait_for_end(fiber_t handle, void** result, int64_t timeout_ns) {
    if (timeout_ns < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* target;
    int where = find(handle, &target);
    if (where < 0) return where;
    if (takes && where != elsewhere && is_detached(target)) return error_of_detached(target);
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    if (target == me) return -EDEADLK;
    int64_t deadline = deadline_after(*cord, timeout_ns);
    uint32_t generation = id_generation(handle.id);
    if constexpr (!takes) {
        if (where != elsewhere && target->main_flow() && target->life.detached) return -EOWNERDEAD;
        return where == elsewhere ? await_end_elsewhere(*cord, target, generation, deadline)
                                  : await_end(*cord, target, deadline);
    }
    if (where == elsewhere) return join_elsewhere(*cord, target, generation, result, deadline);
    return join(*cord, target, result, deadline);
}

} // namespace

int fiber_new(fiber_t* out, const fiber_attr_t* attr, void* (*fn)(void*), void* arg) {
    if (!out || !fn || (attr && attr->pool)) return -EINVAL;
    if (attr && attr->cord) {
        Cord* to;
        int error = cords.resolve(attr->cord, &to);
        if (error) return error;
        if (to != this_cord) return create_elsewhere(to, attr->cord, &out->id, *attr, false, fn, arg);
    }
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* fiber;
    int error = create(*cord, &fiber, attr ? *attr : default_attr, fn, arg);
    if (!error) *out = handle_of(fiber);
    return error;
}

int fiber_spawn(fiber_t* out, void* (*fn)(void*), void* arg) {
    if (!fn) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    if (cord->closing) return -EPIPE;
    Fiber* fiber;
    int error = fiber_create(*cord, Kind::keeps_cord, &fiber);
    if (error) return error;
    fiber->call.fn = fn;
    fiber->call.arg = arg;
    fiber->stack_class = default_attr.stack_class;
    fiber->life.detached = !out;
    if (out) *out = handle_of(fiber);
    fiber->sched.state = State::scheduled;
    cord->sched.queue.push(fiber);
    return 0;
}

int fiber_spawn_attr(fiber_t* out, const fiber_attr_t* attr, void* (*fn)(void*), void* arg) {
    if (!fn || (attr && attr->pool)) return -EINVAL;
    fiber_attr wanted = attr ? *attr : default_attr;
    wanted.detached |= !out;
    if (wanted.cord) {
        Cord* to;
        int error = cords.resolve(wanted.cord, &to);
        if (error) return error;
        if (to != this_cord) return create_elsewhere(to, wanted.cord, out ? &out->id : nullptr, wanted, true, fn, arg);
    }
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* fiber;
    int error = create(*cord, &fiber, wanted, fn, arg);
    if (error) return error; // coverage: no memory
    if (out) *out = handle_of(fiber);
    wake_up(*cord, fiber, nullptr);
    return 0;
}

int fiber_post(fiber_cord_t handle, void* (*fn)(void*), void* arg) {
    if (!fn) return -EINVAL;
    Cord* to;
    int error = cords.resolve(handle.id, &to);
    if (error) return error;
    if (to != this_cord) {
        fiber_attr attr;
        attr.detached = true;
        return create_elsewhere(to, handle.id, nullptr, attr, true, fn, arg);
    }
    return fiber_spawn(nullptr, fn, arg);
}

int fiber_start(fiber_t handle) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    return where == elsewhere ? start_elsewhere(fiber, handle) : start(*cord, handle);
}

int fiber_join(fiber_t handle, void** result) { return wait_for_end<true>(handle, result, FIBER_FOREVER); }

int fiber_join_timeout(fiber_t handle, void** result, int64_t timeout_ns) {
    return wait_for_end<true>(handle, result, timeout_ns);
}

int fiber_await(fiber_t handle) { return wait_for_end<false>(handle, nullptr, FIBER_FOREVER); }

int fiber_await_timeout(fiber_t handle, int64_t timeout_ns) { return wait_for_end<false>(handle, nullptr, timeout_ns); }

int fiber_detach(fiber_t handle) {
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    if (where == elsewhere) return detach_elsewhere(fiber, id_generation(handle.id));
    if (fiber->main_flow() || !note_detach(fiber)) return -EINVAL;
    detach(*this_cord, fiber);
    return 0;
}

int fiber_exit(void* result) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->sched.current;
    if (me->main_flow() || me->requests.ending || noswitch_refuses(me)) return -EPERM;
    return fiberrt_fiber_ended(me, result);
}

int fiber_self(fiber_t* out) {
    if (!out) return -EINVAL;
    Cord* cord = cord_for_query();
    if (!cord) return no_cord();
    *out = handle_of(cord->sched.current);
    return 0;
}
