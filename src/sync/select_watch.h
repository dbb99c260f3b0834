// SPDX-License-Identifier: MIT OR Apache-2.0
// The cases of a select that wait in no list of a primitive: the ends of fibers and of children of scopes, and
// descriptors. A Watch for each takes a place in the list of those that wait for that end, and stands for the select's
// wait there.
#pragma once

#include "core/life.h"
#include "sync/waiting.h"

#include "fiberrt.h"

namespace fiberrt {

// The result of trying a case that is not possible now. Not -EAGAIN, because a join can have that as its result.
constexpr int64_t not_yet = INT64_MIN;

// Whether a case waits by a Watch. Only fibers wait so, not threads without a cord.
inline bool is_watched(const fiber_case_t& what) {
    return what.kind == FIBER_CASE_JOIN || what.kind == FIBER_CASE_FD || what.kind == FIBER_CASE_SCOPE;
}

// Tries a watched case by itself: not_yet, or its result.
int64_t select_try_watched(Caller caller, fiber_case_t& what);

// One for each watched case of a select. For a join or a scope, it is an EndWait in the target's list that stands for
// the select's wait (EndWait::select_wait): no join has received the target's result unless this case is selected. So
// after a select of another case, the target can still be joined. A descriptor is watched by a helper: a fiber that
// waits for the descriptor and returns the events.
struct Watch : EndWait {
    fiber_case_t* what = nullptr;
    Waiter* waiter = nullptr; // the selected waiter if this case is selected; it is in no list
    Fiber* target = nullptr;  // while this is in the target's list
    Fiber* helper = nullptr;  // while the helper has not been joined
    Scope* scope = nullptr;   // while the scope knows this
};

struct SelectWait : SyncWait {
    SelectWait(Waiter* waiters, uint32_t count, Watch* watches) : SyncWait(waiters, count), watches(watches) {}
    Watch* watches;                                        // as many as waiters
    void* heap = nullptr;                                  // the allocation that holds them; null: none
    void* (*await_descriptor)(void* fiber_case) = nullptr; // the function of a helper
};

// Begins the watches of a wait that is in its lists. The wait ends them when it leaves its lists.
void select_begin_watches(SelectWait& wait);

// Ends the helpers of the descriptors that were not selected. The selected case's helper has been joined already.
void select_end_helpers(SelectWait& wait);

// Stores the result of a case that was selected by its watch.
void select_store_watched(Caller caller, fiber_case_t& what, const Watch& watch);

} // namespace fiberrt
