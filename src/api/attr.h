// SPDX-License-Identifier: MIT OR Apache-2.0
// The attribute object behind fiber_attr_t, and what all attribute objects share.
#pragma once

#include "base/keep_errno.h"
#include "core/fiber.h"
#include "core/stack_pool.h"
#include "fiberrt.h"

#include <errno.h>
#include <new>
#include <stdlib.h>

struct fiber_attr {
    uint8_t stack_class = fiberrt::StackPool::class_for(FIBER_STACK_DEFAULT);
    fiberrt::StackPool::Guard guard = fiberrt::StackPool::Guard::require;
    size_t guard_bytes = FIBER_GUARD_SIZE_DEFAULT;
    bool detached = false;
    bool daemon = false;
    uint64_t pool = 0;                 // whose task it is to be; 0: none's
    uint64_t cord = 0;                 // on which the fiber is made; 0: the caller's
    void (*free_arg)(void*) = nullptr; // what is called with its argument if it never runs
    char name[FIBER_NAME_MAX] = "";
};

namespace fiberrt::api {

// An attribute object with the defaults; free() ends it.
template <class Attr>
int make_attr(Attr** out) {
    if (!out) return -EINVAL;
    KeepErrno keep;
    void* memory = malloc(sizeof(Attr));
    if (!memory) return -ENOMEM;
    *out = new (memory) Attr;
    return 0;
}

// To a fiber that is new.
void apply(Fiber* fiber, const fiber_attr& attr, void* (*fn)(void*), void* arg);

void copy_name(char* to, size_t size, const char* from); // cut to what fits

} // namespace fiberrt::api
