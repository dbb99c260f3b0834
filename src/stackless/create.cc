// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes stackless fibers with attributes.
#include "stackless/create.h"

#include "base/copy_name.h"

namespace fiberrt {

int hosted_create_with(Cord& cord, const fiber_attr& attr, fiber_step_t step, void* user, Fiber** out) {
    Kind kind = attr.daemon ? Kind::daemon : Kind::keeps_cord;
    int error = hosted_create(cord, kind, step, user, attr.stack_class, out);
    if (error) return error;
    Fiber* fiber = *out;
    fiber->life.detached = attr.detached;
    if (attr.free_arg) {
        fiber->received.free_user = attr.free_arg;
        fiber->extras.flags |= flag_free_arg;
    }
    if (attr.name[0]) {
        Locked locked(fiber->remote.lock);
        copy_name(fiber->name, sizeof fiber->name, attr.name);
    }
    return 0;
}

} // namespace fiberrt
