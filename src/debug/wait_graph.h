// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds fibers that wait for each other, in a circle, across cords. These waits have edges:
//
//   the wait                           the fibers that must do something before it ends
//   for a lock                         the holder; none if readers hold a read-write lock, or a thread without a cord
//   for the end of a fiber             that fiber
//   for the end of a cord              the cord's main flow
//   of a main flow, for its cord's     each of these
//   other fibers to end
//   to close a scope                   each child of the scope that has not ended
//   of a transfer                      the fiber transferred to (but another one may transfer instead)
//   with a reason (FIBER_OP_REASON)    the fiber that the reason names
//
// Other waits (for channels, semaphores, conditions, events, descriptors, one of several cases) have none, because any
// fiber can end them.
#pragma once

#include "base/arena.h"
#include "debug/look.h"

#include <stdint.h>

namespace fiberrt {

// A circle: each fiber waits for the next one, and the last one for the first.
struct WaitCircle {
    const Snapshot* fibers; // of one moment
    int count;
    bool certain;     // it is a deadlock: without a cancel or an interrupt from outside, it lasts for ever
    int64_t deadline; // at which a wait of it ends at the latest; `never`: there is none, or it is not known
};

class WaitGraph {
public:
    explicit WaitGraph(Arena& arena) : arena_(arena) {}

    // Adds a fiber, unless its wait has no edges.
    void add(const Snapshot& seen);

    // Finds a circle that has existed at one moment during this call: none of its fibers ran meanwhile. Each fiber is
    // the end of at most one circle. False: there is no further circle.
    bool next(WaitCircle& out);

    bool lacks_memory() const { return lacks_memory_; }

private:
    struct Node;
    struct Members;

    Node* node_of(uint64_t id);
    Members* members_of(uint64_t key, bool make);
    Node* next_target(Node& node);
    bool confirm(Node* last, Node* first, WaitCircle& out);

    Arena& arena_;
    Node* nodes_ = nullptr; // the trie
    Node* list_ = nullptr;  // in which the search begins
    Node* path_ = nullptr;  // the innermost fiber of the search
    Members* members_ = nullptr;
    bool lacks_memory_ = false;
};

} // namespace fiberrt
