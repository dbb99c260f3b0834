// SPDX-License-Identifier: MIT OR Apache-2.0
// The cases of a select that wait in lists of primitives: channels, events and semaphores.
//
// try_or_join() takes the locks of all lists, in the order of their addresses, and tries each case again. If none is
// possible, it puts a waiter into each list, and releases the locks. So a select that tries cases has no waiters, and a
// select that has waiters tries none: two selects never try to claim each other at one time. A select that has been
// completed or stopped removes its waiters.
#pragma once

#include "sync/waiting.h"

#include "fiberrt.h"

namespace fiberrt {

// Finds the list of a case; null: the case waits in no list. -E...: its handle is not valid; this is the case's result.
int select_list(const fiber_case_t& what, Waiters** list);

// Tries a case by itself. -EAGAIN, or its result.
int64_t select_try_list(const fiber_case_t& what);

// Lets the other fibers of the cord run, after a select whose case was possible at once.
void select_give_turn(const fiber_case_t& what);

struct SelectLists {
    struct Entry {
        Waiters* list;   // of the case
        Waiters* locked; // in entry i, the list to be locked as number i: each list of the select once; then null
    };

    const fiber_case_t* cases;
    Entry* entries;  // one for each case
    Waiter* waiters; // one for each case
    uint32_t count;
    uint32_t begin; // the case that is tried first

    // Tries all cases under all locks. Returns the case that was done, and its result; -1: `wait` is in all lists.
    int try_or_join(SyncWait& wait, Cord* home, int64_t* result);

private:
    int find_lists(int64_t* error) const; // -1, or the case whose list was not found because of *error
};

} // namespace fiberrt
