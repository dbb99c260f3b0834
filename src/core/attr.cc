// SPDX-License-Identifier: MIT OR Apache-2.0
// Gives new fibers their attributes.
#include "core/attr.h"

namespace fiberrt {

void apply(Fiber* fiber, const fiber_attr& attr, void* (*fn)(void*), void* arg) {
    fiber->fn = fn;
    fiber->arg = arg;
    fiber->stack_class = attr.stack_class;
    fiber->detached = attr.detached;
    if (attr.free_arg) {
        fiber->free_arg = attr.free_arg;
        fiber->along |= along_free_arg;
    }
    if (!attr.name[0]) return;
    Locked locked(fiber->mail.lock); // a thread may still be reading the name of the fiber that had the slot
    memcpy(fiber->name, attr.name, sizeof fiber->name);
}

} // namespace fiberrt
