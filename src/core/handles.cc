// SPDX-License-Identifier: MIT OR Apache-2.0
// The slower half of finding fibers and scopes by their handles.
// fuzz: switch 50 %
#include "core/handles.h"

namespace fiberrt {

int find_arriving(fiber_t handle, Fiber** out) {
    receive_all(*this_cord);
    int error = fibers.resolve(handle.id, out);
    if (error) return error;
    return (*out)->cord.load(std::memory_order_relaxed) == this_cord ? 0 : elsewhere;
}

int own_scope(fiber_scope_t handle, Scope** out) {
    int error = scopes.resolve(handle.id, out);
    if (error) return error;
    const Cord* cord = cord_if_any();
    bool own = cord && (*out)->fiber.load(std::memory_order_relaxed) == cord->sched.current;
    return own && cord_here() ? 0 : -EPERM;
}

} // namespace fiberrt
