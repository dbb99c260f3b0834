// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the fiber or scope that a handle names, and whether it belongs to the calling thread's cord. The public calls
// begin with these functions.
// fuzz: switch 80 %
#pragma once

#include "core/cord.h"
#include "core/remote_requests.h"
#include "core/scheduler.h"
#include "core/scope.h"
#include "fiberrt.h"

#include <errno.h>

namespace fiberrt {

// The calling thread's cord, opened if there is none, for calls that only look, such as fiber_self. A cord between two
// runs of a foreign loop stays suspended. Otherwise a loop that calls fiber_self in each round would run the cord in
// each round, for ever.
inline Cord* cord_for_query() {
    Cord* cord = cord_if_any();
    return cord ? cord : cord_open();
}

// find() for a fiber that was made for the calling thread's cord and is still in the cord's inbox.
int find_arriving(fiber_t handle, Fiber** out);

// Result of find(): the fiber belongs to another cord, or to the calling thread's cord while that is suspended between
// the runs of a foreign loop.
constexpr int elsewhere = 1;

// Finds the control block of a fiber. 0: the fiber belongs to the calling thread's cord; `elsewhere`; -EINVAL, -ESRCH.
inline int find(fiber_t handle, Fiber** out) {
    int error = fibers.resolve(handle.id, out);
    if (error) return error;
    // Acquire: a fiber of another cord is seen as made.
    Cord* cord = (*out)->cord.load(std::memory_order_acquire);
    if (cord == this_cord && cord) [[likely]]
        return 0;
    if (cord == bound_for(this_cord)) return find_arriving(handle, out);
    return cord ? elsewhere : -ESRCH; // none: it has just ended on its own thread
}

// Finds a fiber of the calling thread's cord. 0, -EINVAL, -ESRCH; -EPERM: the fiber belongs to another cord.
inline int own_fiber(fiber_t handle, Fiber** out) {
    if (!this_cord && cord_if_any()) [[unlikely]]
        cord_here();
    int where = find(handle, out);
    return where == elsewhere ? -EPERM : where;
}

// Finds a scope that the calling fiber opened. 0, -EINVAL, -ESRCH, -EPERM.
int own_scope(fiber_scope_t handle, Scope** out);

// Checks, after reading a slot that another thread owns, that all values read belong to the use of the slot with this
// generation.
template <class Slot>
bool is_in_the_same_use(Slot& slot, uint32_t generation) {
#if FIBERRT_THREAD_SANITIZER
    // ThreadSanitizer does not know fences. Release: the reads before come before this write, which changes nothing.
    return slot.generation.fetch_add(0, std::memory_order_release) == generation;
#else
    std::atomic_thread_fence(std::memory_order_acquire); // the reads before come before
    return slot.generation.load(std::memory_order_relaxed) == generation;
#endif
}

// Checks, after reading a fiber of another cord, that all values read belong to the fiber of this handle. 0, -ESRCH.
inline int check_unchanged(Fiber* fiber, fiber_t handle) {
    return is_in_the_same_use(*fiber, id_generation(handle.id)) ? 0 : -ESRCH;
}

// Whether a fiber of the calling thread's cord is detached, and the error that a join then returns. A main flow counts
// as detached when its thread's function has returned. A detach by another cord counts from the moment of that call,
// before this cord receives the request.
inline int error_of_detached(const Fiber* fiber) { return fiber->main_flow() ? -EOWNERDEAD : -EINVAL; }
inline bool is_detached(Fiber* fiber) {
    return fiber->life.detached || (fiber->requests.asked_elsewhere && detach_is_coming(fiber));
}

inline fiber_t handle_of(const Fiber* fiber) { return {fibers.id_of(fiber)}; }

} // namespace fiberrt
