// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads fibers and cords for introspection.
#include "debug/describe.h"

#include "base/copy_name.h"
#include "core/handles.h"
#include "core/backend.h"

#include <string.h>

namespace fiberrt {

namespace {

int public_state(const Fiber* fiber) {
    switch (fiber->sched.state) {
    case State::created: return FIBER_NEW;
    case State::scheduled:
    case State::awaiting_stack:
    case State::queued:
    case State::woken:
    case State::offered: return FIBER_RUNNABLE;
    case State::running:
    case State::handed_out: return FIBER_RUNNING;
    case State::yielding:
    case State::transferring:
    case State::waiting: return FIBER_WAITING;
    case State::dead: return FIBER_DEAD;
    }
    __builtin_unreachable();
}

} // namespace

int state_of(Fiber* fiber, fiber_t handle) {
    int state = public_state(fiber);
    int error = check_unchanged(fiber, handle);
    return error ? error : state;
}

int name_of(Fiber* fiber, fiber_t handle, char (&name)[FIBER_NAME_MAX]) {
    {
        Locked locked(fiber->remote.lock);
        memcpy(name, fiber->name, sizeof name);
    }
    name[sizeof name - 1] = '\0';
    return check_unchanged(fiber, handle);
}

void set_name(Fiber* fiber, const char* name) {
    Locked locked(fiber->remote.lock);
    copy_name(fiber->name, sizeof fiber->name, name);
}

int describe(Fiber* fiber, fiber_t handle, fiber_info_t* out) {
    *out = {};
    out->id = handle.id;
    out->state = public_state(fiber);
    out->cancelled = fiber->requests.cancelled;
    out->detached = is_detached(fiber);
    out->permit = fiber->sched.permit;
    out->main_flow = fiber->main_flow();
    if (char* low = fiber->stack_low) {
        out->stack_size = StackPool::size_of(fiber->stack_class);
        out->stack_low = reinterpret_cast<uintptr_t>(low);
        out->stack_high = reinterpret_cast<uintptr_t>(StackPool::top(fiber->stack_class, low));
    }
    if (const Cord* cord = cord_of(fiber)) out->cord = CordTable::id_of(cord);
    return name_of(fiber, handle, out->name);
}

fiber_stats_t stats_of(const Cord& cord) {
    fiber_stats_t stats = {};
    stats.switches = cord.switches();
    stats.instant_resumes = cord.counters.instant_resumes;
    stats.polls = cord.counters.polls;
    stats.blocking_polls = cord.counters.blocking_polls;
    stats.ops = cord.io ? cord.io->given : 0;
    stats.fibers = cord.counts.fibers;
    stats.stacks = cord.stacks.in_use();
    stats.stacks_free = cord.stacks.free();
    stats.ops_in_flight = cord.io ? cord.io->in_flight : 0;
    stats.stacks_high_water = cord.stacks.made();
    stats.stacks_trimmed = cord.stacks.trimmed();
    stats.stack_bytes = cord.stacks.committed_bytes();
    return stats;
}

} // namespace fiberrt
