// SPDX-License-Identifier: MIT OR Apache-2.0
// Select: waits for one of several things.
//
// First each case is tried by itself, as its own call would. If none can be had, the locks of all lists are taken, in
// the order of their addresses, and each is tried again; if there is still nothing, a waiter is put into each list, and
// the locks are left. So a select that looks cannot be completed by others, and one that can be completed does not
// look: two selects that meet need not claim each other. One that has been completed, or stopped, takes its waiters
// out.
//
// Here are the cases that lists of this layer stand for; api/select.cc has the others.
#pragma once

#include "sync/waiting.h"

#include "fiberrt.h"

namespace fiberrt {

// The list of a case, null if it has none of this layer's. -E...: its handle is not valid, which is the case's result.
int select_list(const fiber_case_t& what, Waiters** list);

// Tries a case by itself. -EAGAIN, or its result.
int64_t select_try(const fiber_case_t& what);

// A case was had at once, and the others of the cord are to have their turn.
void select_give_turn(const fiber_case_t& what);

struct Select {
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
