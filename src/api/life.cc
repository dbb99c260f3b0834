// SPDX-License-Identifier: MIT OR Apache-2.0
// The life of fibers: new, start, join, end, names.
#include "core/life.h"

#include "api/api.h"
#include "api/attr.h"

#include <string.h>

using namespace fiberrt;
using api::handle_of;
using api::own_fiber;

namespace {

constexpr fiber_attr default_attr;

int create(Cord& cord, Fiber** out, const fiber_attr& attr, void* (*fn)(void*), void* arg) {
    int error = fiber_create(cord, out);
    if (error) return error;
    Fiber* fiber = *out;
    fiber->fn = fn;
    fiber->arg = arg;
    fiber->stack_class = attr.stack_class;
    fiber->detached = attr.detached;
    if (attr.name[0]) memcpy(fiber->name, attr.name, sizeof fiber->name);
    return 0;
}

int public_state(const Fiber* fiber) {
    switch (fiber->state) {
    case State::created: return FIBER_NEW;
    case State::scheduled:
    case State::stackless:
    case State::queued:
    case State::woken: return FIBER_RUNNABLE;
    case State::running: return FIBER_RUNNING;
    case State::yielding:
    case State::transferring:
    case State::waiting: return FIBER_WAITING;
    case State::dead: return FIBER_DEAD;
    }
    __builtin_unreachable();
}

int join_until(fiber_t handle, void** result, int64_t timeout_ns) {
    if (timeout_ns < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Fiber* target;
    int error = own_fiber(handle, &target);
    if (error) return error;
    if (target->detached) return -EINVAL;
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    if (target == me) return -EDEADLK;
    return join(*cord, target, result, timeout_ns == FIBER_FOREVER ? never : deadline_after(timeout_ns));
}

} // namespace

int fiber_new(fiber_t* out, const fiber_attr_t* attr, void* (*fn)(void*), void* arg) {
    if (!out || !fn) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Fiber* fiber;
    int error = create(*cord, &fiber, attr ? *attr : default_attr, fn, arg);
    if (!error) *out = handle_of(fiber);
    return error;
}

int fiber_spawn(fiber_t* out, void* (*fn)(void*), void* arg) {
    if (!fn) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Fiber* fiber;
    int error = create(*cord, &fiber, default_attr, fn, arg);
    if (error) return error;
    fiber->detached = !out;
    if (out) *out = handle_of(fiber);
    fiber->state = State::scheduled;
    cord->queue.push(fiber);
    return 0;
}

int fiber_start(fiber_t handle) {
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Fiber* fiber;
    int error = own_fiber(handle, &fiber);
    if (error) return error;
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    if (fiber->state == State::dead) return -ESRCH;
    if (fiber->state != State::created) return -EBUSY;
    if (!stack_take(*cord, fiber)) return -EAGAIN;
    me->state = State::queued;
    me->resume = 0;
    cord->queue.push_front(me);
    poll_if_due(*cord);
    return give_to_new(*cord, me, fiber);
}

int fiber_join(fiber_t handle, void** result) { return join_until(handle, result, FIBER_FOREVER); }

int fiber_join_timeout(fiber_t handle, void** result, int64_t timeout_ns) {
    return join_until(handle, result, timeout_ns);
}

int fiber_detach(fiber_t handle) {
    Fiber* fiber;
    int error = own_fiber(handle, &fiber);
    if (error) return error;
    if (fiber->detached || fiber->main_flow) return -EINVAL;
    fiber->detached = true;
    if (fiber->state == State::dead) fiber_free(*this_cord, fiber);
    return 0;
}

int fiber_exit(void* result) {
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Fiber* me = cord->current;
    if (me->main_flow || me->ending || (me->attention & attention_noswitch)) return -EPERM;
    fiberrt_fiber_ended(me, result);
}

int fiber_self(fiber_t* out) {
    if (!out) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    *out = handle_of(cord->current);
    return 0;
}

int fiber_state(fiber_t handle) {
    Fiber* fiber;
    int error = own_fiber(handle, &fiber);
    return error ? error : public_state(fiber);
}

int fiber_name(fiber_t handle, char* buffer, size_t size) {
    if (!buffer || !size) return -EINVAL;
    Fiber* fiber;
    int error = own_fiber(handle, &fiber);
    if (error) return error;
    size_t length = strlen(fiber->name);
    size_t copied = length < size ? length : size - 1;
    memcpy(buffer, fiber->name, copied);
    buffer[copied] = '\0';
    return int(length);
}

int fiber_set_name(fiber_t handle, const char* name) {
    if (!name) return -EINVAL;
    Fiber* fiber;
    int error = own_fiber(handle, &fiber);
    if (!error) api::copy_name(fiber->name, name);
    return error;
}

int fiber_info(fiber_t handle, fiber_info_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    Fiber* fiber;
    int error = own_fiber(handle, &fiber);
    if (error) return error;
    fiber_info_t info = {};
    info.id = handle.id;
    info.state = public_state(fiber);
    info.cancelled = fiber->cancelled;
    info.detached = fiber->detached;
    info.permit = fiber->permit;
    info.main_flow = fiber->main_flow;
    if (fiber->stack_low) {
        info.stack_size = StackPool::size_of(fiber->stack_class);
        info.stack_low = reinterpret_cast<uintptr_t>(fiber->stack_low) + StackPool::guard_size;
    }
    memcpy(info.name, fiber->name, sizeof info.name);
    api::copy_out(out, size, &info, sizeof info);
    return 0;
}

FIBERRT_EXPORT(fiber_new);
FIBERRT_EXPORT(fiber_spawn);
FIBERRT_EXPORT(fiber_start);
FIBERRT_EXPORT(fiber_join);
FIBERRT_EXPORT(fiber_join_timeout);
FIBERRT_EXPORT(fiber_detach);
FIBERRT_EXPORT(fiber_exit);
FIBERRT_EXPORT(fiber_self);
FIBERRT_EXPORT(fiber_state);
FIBERRT_EXPORT(fiber_name);
FIBERRT_EXPORT(fiber_set_name);
FIBERRT_EXPORT(fiber_info);
