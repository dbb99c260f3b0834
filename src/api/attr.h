// SPDX-License-Identifier: MIT OR Apache-2.0
// The attribute object behind fiber_attr_t.
#pragma once

#include "core/fiber.h"
#include "core/stack_pool.h"
#include "fiberrt.h"

struct fiber_attr {
    uint8_t stack_class = fiberrt::StackPool::class_for(FIBER_STACK_DEFAULT);
    fiberrt::StackPool::Guard guard = fiberrt::StackPool::Guard::require;
    bool detached = false;
    bool daemon = false;
    uint64_t pool = 0; // whose task it is to be; 0: none's
    uint64_t cord = 0; // on which the fiber is made; 0: the caller's
    char name[FIBER_NAME_MAX] = "";
};

namespace fiberrt::api {

// To a fiber that is new.
void apply(Fiber* fiber, const fiber_attr& attr, void* (*fn)(void*), void* arg);

void copy_name(char* to, size_t size, const char* from); // cut to what fits

} // namespace fiberrt::api
