// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds stackless fibers.
#include "stackless/find.h"

#include "core/handles.h"

namespace fiberrt {

int own_hosted(fiber_t handle, Fiber** out) {
    int error = own_fiber(handle, out);
    if (error) return error;
    if ((*out)->sched.state == State::dead) return -ESRCH;
    return (*out)->uses_stack() ? -EINVAL : 0;
}

int handed_out(fiber_t handle, Fiber** out) {
    if (int error = own_hosted(handle, out)) return error;
    if (!this_cord->sched.current->uses_stack()) return -EPERM;
    return (*out)->sched.state == State::handed_out ? 0 : -EBUSY;
}

} // namespace fiberrt
