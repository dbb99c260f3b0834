// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes the children of a scope.
// fuzz: waiting 65 %
#include "core/spawn_child.h"

#include "base/keep_errno.h"
#include "core/handles.h"
#include "core/life.h"
#include "core/remote_requests.h"

namespace fiberrt {

namespace {

// The cord to make a fiber on.
struct Destination {
    Cord* here; // the caller's
    Cord* cord;
    uint64_t id; // handle of cord, if it is not here
};

int find_destination(const fiber_attr& attr, Destination* out) {
    Cord* to = nullptr;
    int error = attr.cord ? cords.resolve(attr.cord, &to) : 0;
    if (error) return error;
    Cord* here = cord_here();
    if (!here) return no_cord();
    *out = {here, to ? to : here, attr.cord};
    if (to && to != here && to->inbox.is_closed()) return -ESRCH;
    return out->cord->closing ? -EPIPE : 0;
}

int create_at(const Destination& to, const fiber_attr& attr, Fiber** out) {
    Kind kind = attr.daemon ? Kind::daemon : Kind::keeps_cord;
    return to.cord == to.here ? fiber_create(*to.here, kind, out) : fiber_create_elsewhere(*to.cord, to.id, kind, out);
}

void create_undo(const Destination& to, Fiber* fiber) {
    if (to.cord != to.here) return fiber_create_undo(fiber);
    fiber->life.detached = true;
    fiber->extras.flags = 0; // free_arg is not called: the caller keeps the argument
    end_unrun(*to.here, fiber, nullptr, 0);
}

// Schedules the first run of a child, or ends it.
void hand_over(const Destination& to, Fiber* fiber, bool stopped, void* reason) {
    if (to.cord == to.here) {
        if (stopped) {
            note_reason(fiber, reason);
            cancel(*to.here, fiber);
        } else {
            wake_up(*to.here, fiber, nullptr);
        }
        return;
    }
    if (stopped) cancel_elsewhere(fiber, id_generation(fibers.id_of(fiber)), reason); // in the message sent next
    if (send_new(*to.cord, fiber, true) == 0) return;
    own_arg_free(*to.here, fiber);
    EndWait* joiners = take_remote_joiners(fiber);
    fiber_create_undo(fiber);
    end_waits_complete(joiners, nullptr, stopped ? -ECANCELED : -EOWNERDEAD);
}

} // namespace

int spawn_child(fiber_scope_t handle, fiber_t* out, const fiber_attr& attr, int64_t (*fn)(void*), void* arg) {
    KeepErrno keep;
    Scope* scope;
    Destination to = {};
    Child* child;
    Fiber* fiber;
    uint32_t generation = id_generation(handle.id);
    if (int error = scopes.resolve(handle.id, &scope)) return error;
    if (int error = find_destination(attr, &to)) return error;
    if (int error = children_open(*to.here, scope, generation)) return error;
    if (int error = child_records.take(to.here->free.children, &child)) return error;
    int error = create_at(to, attr, &fiber);
    if (error == 0) {
        apply(fiber, attr, as_fiber_function(fn), arg); // no C++ calls it, except under sanitizers (core/hooks.cc)
        child_begin(child, scope, fiber, attr.detached);
        void* reason;
        int stopped = child_enter(child, generation, &reason);
        if (stopped >= 0) {
            if (out) *out = handle_of(fiber); // before it can end
            hand_over(to, fiber, stopped, reason);
            return 0;
        }
        create_undo(to, fiber);
        error = stopped;
    }
    child_records.end_use(child);
    child_records.give_back(to.here->free.children, child);
    return error;
}

} // namespace fiberrt
