// SPDX-License-Identifier: MIT OR Apache-2.0
// Attributes of new fibers.
#include "api/attr.h"

#include "api/api.h"
#include "base/copy_name.h"

#include <stdlib.h>
#include <string.h>

using fiberrt::StackPool;

static_assert(int(StackPool::Guard::require) == FIBER_GUARD_REQUIRE);
static_assert(int(StackPool::Guard::prefer) == FIBER_GUARD_PREFER);
static_assert(int(StackPool::Guard::none) == FIBER_GUARD_NONE);
static_assert(StackPool::guard_default == FIBER_GUARD_SIZE_DEFAULT && StackPool::guard_most == FIBER_GUARD_SIZE_MAX);

int fiber_attr_create(fiber_attr_t** out) { return fiberrt::api::make_attr(out); }

int fiber_attr_destroy(fiber_attr_t* attr) {
    free(attr);
    return 0;
}

int fiber_attr_set_stack_size(fiber_attr_t* attr, size_t bytes) {
    if (!attr || bytes < FIBER_STACK_MIN || bytes > FIBER_STACK_MAX) return -EINVAL;
    size_t least = StackPool::least_size();
    uint8_t stack_class = StackPool::class_for(bytes < least ? least : bytes, attr->guard, attr->guard_bytes);
    if (attr->stack_reserve > StackPool::size_of(stack_class) / 2) return -EINVAL;
    attr->stack_class = stack_class;
    return 0;
}

int fiber_attr_set_stack_reserve(fiber_attr_t* attr, size_t bytes) {
    if (!attr || bytes > StackPool::size_of(attr->stack_class) / 2) return -EINVAL;
    attr->stack_reserve = uint32_t((bytes + 15) & ~size_t(15)); // frames begin at multiples of 16
    return 0;
}

int fiber_attr_set_guard(fiber_attr_t* attr, int guard) {
    if (!attr || guard < FIBER_GUARD_REQUIRE || guard > FIBER_GUARD_NONE) return -EINVAL;
    attr->guard = StackPool::Guard(guard);
    attr->stack_class = StackPool::with_guard(attr->stack_class, attr->guard, attr->guard_bytes);
    return 0;
}

int fiber_attr_set_guard_size(fiber_attr_t* attr, size_t bytes) {
    if (!attr || bytes == 0 || bytes > FIBER_GUARD_SIZE_MAX) return -EINVAL;
    attr->guard_bytes = bytes;
    attr->stack_class = StackPool::with_guard(attr->stack_class, attr->guard, attr->guard_bytes);
    return 0;
}

int fiber_attr_set_name(fiber_attr_t* attr, const char* name) {
    if (!attr || !name) return -EINVAL;
    fiberrt::copy_name(attr->name, sizeof attr->name, name);
    return 0;
}

int fiber_attr_set_detached(fiber_attr_t* attr, int detached) {
    if (!attr) return -EINVAL;
    attr->detached = detached != 0;
    return 0;
}

int fiber_attr_set_daemon(fiber_attr_t* attr, int daemon) {
    if (!attr) return -EINVAL;
    attr->daemon = daemon != 0;
    return 0;
}

int fiber_attr_set_free_arg(fiber_attr_t* attr, void (*free_arg)(void*)) {
    if (!attr) return -EINVAL;
    attr->free_arg = free_arg;
    return 0;
}

int fiber_attr_set_cord(fiber_attr_t* attr, fiber_cord_t cord) {
    if (!attr) return -EINVAL;
    fiberrt::Cord* found;
    int error = fiberrt::cords.resolve(cord.id, &found);
    if (!error) attr->cord = cord.id;
    return error;
}
