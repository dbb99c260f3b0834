// SPDX-License-Identifier: MIT OR Apache-2.0
// The environment: the time, and in a simulation every choice that the kernel and other threads would make otherwise.
// The core owns this interface. The simulation (src/sim) implements it and installs itself before the first cord.
#pragma once

#include "base/relaxed.h"

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

enum class Resource : uint8_t { memory, stack };

struct Environment {
    int64_t (*now)();
    bool (*admits)(); // whether the calling thread may have a cord

    // Cords. They have no threads of their own and share the one thread of the simulation.
    int (*open)(Cord& cord);                       // opens the cord's backend at once. 0, -ENOMEM
    int (*start)(Cord& cord, void* (*run)(void*)); // calls run(&cord) in place of a thread. 0, -ENOMEM, -EAGAIN
    void (*thread_ends)();                         // the first cord has ended: the others go on until they end
    void (*between)();                             // another thread could act now: may let another cord go on
    void (*ring)(Cord& cord);                      // wakes a cord that sleeps
    void (*sleep)(int64_t deadline);               // sleeps until another cord rings; for a cord that has no backend

    // Choices.
    void (*before_switch)(Cord& cord);          // a switch is about to be made: counts it, checks the cord
    bool (*slice_over)();                       // whether the current fiber has had the thread for long enough
    int64_t (*poll_interval)();                 // how many switches until the next regular poll
    void (*order)(Fiber** due, unsigned count); // reorders fibers whose timers fire at the same time
    uint32_t (*pick_below)(uint32_t n);         // the number, below n, of the worker to steal from first
    bool (*stuck)(Cord& cord);                  // no operation under way can ever be done
    bool (*refuses)(Resource what);             // a fault: this allocation fails
};

// Null: the real time, the kernel and threads. Set once, before the first cord, by the thread that opens it.
extern Relaxed<const Environment*> environment;

inline bool simulated() { return environment; }

// The time in nanoseconds: CLOCK_MONOTONIC, or the environment's.
int64_t clock_now();

// A point at which another thread could act: a simulation may let another cord go on here.
inline void in_between() {
    if (environment) environment->between();
}

} // namespace fiberrt
