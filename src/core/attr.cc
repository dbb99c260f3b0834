// SPDX-License-Identifier: MIT OR Apache-2.0
// Gives new fibers their attributes.
#include "core/attr.h"

namespace fiberrt {

void apply(Fiber* fiber, const fiber_attr& attr, void* (*fn)(void*), void* arg) {
    fiber->call.fn = fn;
    fiber->call.arg = arg;
    fiber->stack_class = attr.stack_class;
    fiber->stack_reserve = attr.stack_reserve;
    fiber->life.detached = attr.detached;
    if (attr.free_arg) {
        fiber->received.free_arg = attr.free_arg;
        fiber->extras.flags |= flag_free_arg;
    }
    if (!attr.name[0]) return;
    Locked locked(fiber->remote.lock); // a thread may still be reading the name of the fiber that had the slot
    memcpy(fiber->name, attr.name, sizeof fiber->name);
}

} // namespace fiberrt
