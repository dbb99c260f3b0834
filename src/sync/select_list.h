// SPDX-License-Identifier: MIT OR Apache-2.0
// The cases of a select that wait in lists of primitives: channels, events and semaphores.
//
// try_or_join() takes the locks of all lists, in the order of their addresses, and tries each case again; if there is
// still nothing, it puts a waiter into each list, and leaves the locks. So a select that looks cannot be completed by
// others, and one that can be completed does not look: two selects that meet need not claim each other. A select that
// has been completed, or stopped, takes its waiters out.
#pragma once

#include "sync/waiting.h"

#include "fiberrt.h"

namespace fiberrt {

// Finds the list of a case; null: the case waits in none. -E...: its handle is not valid, which is the case's result.
int select_list(const fiber_case_t& what, Waiters** list);

// Tries a case by itself. -EAGAIN, or its result.
int64_t select_try_list(const fiber_case_t& what);

// After a case that was had at once: lets the other fibers of the cord run.
void select_give_turn(const fiber_case_t& what);

struct SelectLists {
    struct Entry {
        Waiters* list;   // of the case
        Waiters* locked; // the lists of all, each once, in the order in which they are locked; then null
    };

    const fiber_case_t* cases;
    Entry* entries;  // one for each case,
    Waiter* waiters; // and one of these
    uint32_t count;
    uint32_t begin; // the case that is tried first

    // Tries all at once. The case that was had, and its result; -1: `wait` is in all lists.
    int try_or_join(SyncWait& wait, Cord* home, int64_t* result);

private:
    int find_lists(int64_t* error) const; // -1, or the case that has none because of an error
};

} // namespace fiberrt
