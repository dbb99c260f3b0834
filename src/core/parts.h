// SPDX-License-Identifier: MIT OR Apache-2.0
// The tables of functions by which the core calls features above it. Each feature fills one table, and gives it to the
// cords that use the feature. The core calls the tables and knows no feature by name. A null pointer: the cord does not
// use the feature.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

// Work that a cord does when it has nothing else to run: tasks of a pool (src/pool).
struct WorkOps {
    // Nothing is runnable and the cord is about to sleep. True: now a fiber is runnable.
    bool (*idle)(Cord& cord);
    // The cord leaves idle again, after idle() has returned false.
    void (*busy)(Cord& cord);
    // The cord polls: lets the work run if fibers that never wait keep the thread from it.
    void (*tick)(Cord& cord);
    // Whether there is work, but no memory for a fiber that does it: the cord tries again soon.
    bool (*starved)(const Cord& cord);
    // A foreign loop has the thread now, and the cord is suspended; or the loop has given it back.
    void (*suspended)(Cord& cord, bool now);
    // A fiber of the work (Kind::task_fiber) waits for a stack, perhaps for long.
    void (*waits_for_stack)(Cord& cord);
    // A fiber of the work has ended in the middle of a task, or without having run.
    void (*fiber_ended)(Cord& cord, const Fiber* fiber);
    // The thread's function has returned: waits until the cord's work is done. Null: the work has not begun.
    void (*leave)(Cord& cord);
    // The thread ends.
    void (*abandon)(Cord& cord);
};
struct CordWork {
    const WorkOps* ops;
    void* owner; // the feature's own record
};

// Runs fibers without a stack (src/stackless).
struct ExecutorOps {
    // Such a fiber was the head of the run queue. The fiber to switch to; null: none, the program runs that fiber.
    Fiber* (*dispatch)(Cord& cord, Fiber* fiber);
    void (*cancelled_unrun)(Cord& cord, Fiber* fiber); // cancelled before its first turn, which it still gets
    void (*leave)(Cord& cord);                         // makes the fiber that entered one the current fiber again
    void (*free_user)(Cord& cord, Fiber* fiber);       // the thread ends before the fiber: frees its user()
};

// A foreign loop that owns the thread (src/embed).
struct LoopOps {
    void (*resume)(Cord& cord); // a call of the thread's own needs the cord, which is suspended between two runs
    void (*end)(Cord& cord);    // the thread ends
};

// Whether a switch takes the slow way, and for what: bits of CordWorld::hooked.
constexpr uint8_t hooked_by_sanitizer = 1;
constexpr uint8_t hooked_by_user = 2;
constexpr uint8_t hooked_by_ambient = 4;
constexpr uint8_t hooked_by_recorder = 8;
constexpr uint8_t hooked_by_any_user = hooked_by_user | hooked_by_ambient;
constexpr uint8_t hooked_by_observers = hooked_by_any_user | hooked_by_recorder;

// Calls the user's hooks for switches, tagged fibers and sleeps (src/embed).
struct ObserverOps {
    // Tells the user of an ordinary switch between two fibers with a stack, and makes it: sets the state of `next`, too.
    int (*make_switch)(Cord& cord, Fiber* me, Fiber* next);
    // Tells the user of a switch that the caller makes. from null: the fiber that ran has ended.
    void (*switched)(Cord& cord, Fiber* from, Fiber* to);
    // A tagged fiber is about to run for the first time; its function has returned; its handle goes stale.
    void (*started)(Cord& cord, Fiber* fiber);
    void (*exits)(Cord& cord, Fiber* fiber);
    void (*destroyed)(Cord& cord, Fiber* fiber);
    // Whether the user wants to be told of sleeps; the cord is about to sleep; it has slept.
    bool (*wants_sleeps)(const Cord& cord);
    void (*sleeps)(Cord& cord);
    void (*woke)(Cord& cord);
    // The thread ends.
    void (*end)(Cord& cord);
};

// Records when fibers run, wait and become runnable (src/record). A cord that is recorded has the bit
// hooked_by_recorder; the core calls the table only then. No wakeup calls it: the recorder looks at the fibers that
// entered the run queue since its last call.
struct RecorderOps {
    // An ordinary switch between two fibers with a stack: notes it, tells the user of it if the user has hooks, and
    // makes it, as ObserverOps::make_switch does.
    int (*make_switch)(Cord& cord, Fiber* me, Fiber* next);
    // The caller is about to make a switch; the fibers have the states from before it. from null: the fiber that ran has
    // ended.
    void (*switched)(Cord& cord, Fiber* from, Fiber* to);
    // The fiber gave way and continues without a switch, perhaps after a poll.
    void (*resumed)(Cord& cord, Fiber* me);
    // Around each look for messages, I/O and timers, the sleep included.
    void (*poll_begins)(Cord& cord);
    void (*poll_ends)(Cord& cord);
    // Around the sleep of the thread; in a foreign loop: around the time in which the loop has the thread.
    void (*sleeps)(Cord& cord);
    void (*woke)(Cord& cord);
    // A stackless fiber was handed out to its host; or the host has begun its operation, and it waits or is runnable.
    void (*changes_hands)(Cord& cord, Fiber* fiber);
    // The fiber, which runs, begins a task of a pool. When the task has ended and the fiber goes on, `ended` is called,
    // then `renewed`: the fiber has a new handle.
    void (*task_begins)(Cord& cord, Fiber* fiber, void* (*fn)(void*));
    void (*renewed)(Cord& cord, Fiber* fiber);
    // The fiber has ended, or its task has; or it ends without having run. Its handle is still valid.
    void (*ended)(Cord& cord, Fiber* fiber);
    // The thread ends.
    void (*end)(Cord& cord);
};

// Ends fiber-local values. A fiber's values begin with a pointer to this table (src/embed).
struct LocalsOps {
    void (*destroy)(Fiber* fiber); // calls the destructors and frees the values
    void (*free)(Fiber* fiber);    // without destructors
};
struct LocalValuesBase {
    const LocalsOps* ops;
};

// Observes the process's threads: begins() when a thread becomes a cord, ends() when the cord ends (src/debug).
struct ThreadObserver {
    void (*begins)(Cord& cord);
    void (*ends)(Cord& cord);
};

// Notes where a fiber was created (src/debug): called on the thread that creates it, before any other thread knows it.
using CreationObserver = void (*)(Fiber* fiber);

} // namespace fiberrt
