// SPDX-License-Identifier: MIT OR Apache-2.0
// The attributes of a new fiber: the object behind fiber_attr_t.
#pragma once

#include "core/fiber.h"
#include "core/stack_pool.h"
#include "fiberrt.h"

#include <string.h>

struct fiber_attr {
    uint8_t stack_class = fiberrt::StackPool::class_for(FIBER_STACK_DEFAULT);
    fiberrt::StackPool::Guard guard = fiberrt::StackPool::Guard::require;
    size_t guard_bytes = FIBER_GUARD_SIZE_DEFAULT;
    uint32_t stack_reserve = 0;
    bool detached = false;
    bool daemon = false;
    uint64_t pool = 0;                 // the pool that runs it as a task; 0: none
    uint64_t cord = 0;                 // the cord that it is made for; 0: the caller's
    void (*free_arg)(void*) = nullptr; // called with the fiber's argument if the fiber never runs
    char name[FIBER_NAME_MAX] = "";
};

namespace fiberrt {

constexpr fiber_attr default_attr;

// Gives a new fiber its function and these attributes.
void apply(Fiber* fiber, const fiber_attr& attr, void* (*fn)(void*), void* arg);

} // namespace fiberrt
