// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes fibers with attributes on other cords, and has them started there.
#include "core/spawn.h"

#include "core/handles.h"
#include "core/life.h"

namespace fiberrt {

int create_elsewhere(Cord* to, uint64_t to_id, uint64_t* id, const fiber_attr& attr, bool scheduled, void* (*fn)(void*),
                     void* arg) {
    if (to->closing) return -EPIPE;
    Fiber* fiber;
    int error = fiber_create_elsewhere(*to, to_id, attr.daemon ? Kind::daemon : Kind::keeps_cord, &fiber);
    if (error) return error;
    apply(fiber, attr, fn, arg);
    uint64_t handle = fibers.id_of(fiber);
    error = send_new(*to, fiber, scheduled);
    if (error) {
        fiber_create_undo(fiber);
    } else if (id) {
        *id = handle;
    }
    return error;
}

int start_elsewhere(Fiber* fiber, fiber_t handle) {
    State state = fiber->sched.state;
    if (int error = check_unchanged(fiber, handle)) return error;
    if (state == State::dead) return -ESRCH;
    return state == State::created ? wakeup_elsewhere(fiber, id_generation(handle.id)) : -EBUSY;
}

} // namespace fiberrt
