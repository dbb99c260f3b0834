// SPDX-License-Identifier: MIT OR Apache-2.0
// What features beside the spine do for a cord. Each feature fills one table of functions, and gives it to the cords that
// use the feature; the spine calls the tables and knows no feature by name. A null pointer: the cord does not use it.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

// Work that a cord does when it has nothing else to run: tasks of a pool (src/pool).
struct WorkOps {
    bool (*idle)(Cord& cord);          // nothing is runnable, the cord would sleep. True: now a fiber is
    void (*busy)(Cord& cord);          // the cord is idle no more
    void (*tick)(Cord& cord);          // at a poll: fibers that never wait must not keep the work from running
    bool (*starved)(const Cord& cord); // there is work, but no memory for a fiber: the cord tries again soon
    void (*left_to_loop)(Cord& cord, bool left); // a foreign loop has the thread, whatever that loop may be doing
    void (*waits_for_stack)(Cord& cord); // a fiber of the work (Kind::runner) waits for a stack, perhaps for long
    void (*fiber_ended)(Cord& cord, const Fiber* fiber); // such a fiber has ended within a task, or unrun
    void (*leave)(
        Cord& cord); // the thread's function has returned: waits until the cord's work is done. Null: there is none yet
    void (*abandon)(Cord& cord); // the thread ends
};
struct CordWork {
    const WorkOps* ops;
};

// Runs fibers without a stack (src/stackless).
struct ExecutorOps {
    // Such a fiber was the head of the run queue. The fiber to switch to; null: none, the fiber is its host's to run.
    Fiber* (*turn)(Cord& cord, Fiber* fiber);
    void (*cancelled_unrun)(Cord& cord, Fiber* fiber); // cancelled before its first turn, which it has all the same
    void (*leave)(Cord& cord);                         // the host is the current fiber again
};

// A foreign loop that owns the thread (src/embed).
struct LoopOps {
    void (*resume)(Cord& cord); // a call of the thread's own needs the cord, which is parked between two runs
    void (*end)(Cord& cord);    // the thread ends
};

// Whether a switch takes the slow way, and for what: bits of CordWorld::hooked.
constexpr uint8_t hooked_by_sanitizer = 1;
constexpr uint8_t hooked_by_user = 2;
constexpr uint8_t hooked_by_ambient = 4;
constexpr uint8_t hooked_by_any_user = hooked_by_user | hooked_by_ambient;

// Functions of the user's that observe switches, tagged fibers and polls (src/embed).
struct ObserverOps {
    int (*make_switch)(Cord& cord, Fiber* me, Fiber* next); // tells of the switch and makes it; both are ordinary
    void (*switched)(Cord& cord, Fiber* from,
                     Fiber* to);                 // tells of a switch that the caller makes. from null: it ended
    void (*started)(Cord& cord, Fiber* fiber);   // a tagged fiber is about to run for the first time
    void (*exits)(Cord& cord, Fiber* fiber);     // a tagged fiber's function has returned
    void (*destroyed)(Cord& cord, Fiber* fiber); // a tagged fiber's handle goes stale
    bool (*wants_sleeps)(const Cord& cord);
    void (*sleeps)(Cord& cord);
    void (*woke)(Cord& cord);
    void (*end)(Cord& cord); // the thread ends
};

// Values of a fiber, which begin with a pointer to this (src/embed).
struct LocalsOps {
    void (*destroy)(Fiber* fiber); // calls the destructors and frees the values
    void (*free)(Fiber* fiber);    // without destructors
};
struct LocalValuesBase {
    const LocalsOps* ops;
};

// What else wants to know of each thread that becomes a cord (src/debug). One for the process.
struct ThreadObserver {
    void (*begins)(Cord& cord);
    void (*ends)(Cord& cord);
};

} // namespace fiberrt
