// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes the children of a scope, on any cord.
#pragma once

#include "core/attr.h"

namespace fiberrt {

// Converts the type of a child's function: its int64_t is returned in the register in which a pointer would be.
inline void* (*as_fiber_function(int64_t (*fn)(void*)))(void*) {
    return reinterpret_cast<void* (*)(void*)>(reinterpret_cast<void (*)()>(fn));
}

// Makes a fiber that is a child of the scope, and schedules it; out may be null. 0; -EINVAL, -ESRCH; -EPIPE: a cord is
// being shut down; -EPERM, -ENOMEM, -EAGAIN, -ENOTSUP. (pool/spawn_task.h makes a child that is a task.)
int spawn_child(fiber_scope_t handle, fiber_t* out, const fiber_attr& attr, int64_t (*fn)(void*), void* arg);

} // namespace fiberrt
