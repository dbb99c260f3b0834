// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes children of a scope that are tasks of a pool: they have no fiber before they begin. fiber_scope_spawn calls it
// for attributes that name a pool.
#pragma once

#include "core/attr.h"

namespace fiberrt {

// Submits a task to the pool of the attributes, as a child of the scope. The errors of spawn_child and pool_submit.
int spawn_task(fiber_scope_t handle, const fiber_attr& attr, int64_t (*fn)(void*), void* arg);

} // namespace fiberrt
