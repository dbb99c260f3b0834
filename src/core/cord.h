// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord: a thread's world. Its run queue, timers, stacks, free slots and backend; the fiber that runs; the counters.
//
// A cord is opened by the first call on a thread that needs one, and ends with the thread. Only its thread touches it.
#pragma once

#include "core/fiber.h"
#include "core/run_queue.h"
#include "core/scope.h"
#include "core/stack_pool.h"
#include "core/timers.h"

#include <stdint.h>

namespace fiberrt {

struct CordIo;

struct Cord {
    int* errno_address;   // this thread's errno,
    void* exceptions;     // and its state of C++ exceptions (__cxa_get_globals)
    Fiber* current;       // who runs; null between a fiber's end and the next one's turn
    int64_t budget;       // switches left until the next poll; at or below zero every switch takes the slow way
    RunQueue queue;
    Timers timers;
    StackPool stacks;
    CordIo* io;           // null until the first I/O

    Fiber* main;
    uint32_t noswitch_depth; // of the fiber that runs
    uint32_t fiber_count;    // slots held: the main flow, new, live, and dead but not joined
    Fiber* stackless_first;  // fibers whose first run waits for a stack, in order, through next_free
    Fiber* stackless_last;
    FreeSlots<Fiber> free_fibers;
    FreeSlots<Scope> free_scopes;

    int64_t granted;         // what budget was last set to
    int64_t until_poll;      // instead of budget while hooks are wanted, which keep the budget at zero
    int64_t poll_interval;   // switches between polls: what lies about poll_period_ns apart
    int64_t last_poll_ns;
    void* tsan_dead;         // ThreadSanitizer's fiber of one that has ended, to be destroyed by the next
    const void* main_stack;  // bounds of the thread's own stack, as AddressSanitizer told them
    size_t main_stack_size;

    uint64_t gave_way; // times a fiber gave its thread away, up to the last time `granted` was set
    uint64_t instant_resumes;
    uint64_t polls;
    uint64_t blocking_polls;

    uint64_t switches() const { return gave_way + uint64_t(granted - budget) - instant_resumes; }
};

// One pointer, and initial-exec (a flag of the build): a load relative to the thread register, without a call.
extern thread_local constinit Cord* this_cord;

Cord* cord_open(); // null: no memory

// The calling thread's cord; opened if there is none, null if there is no memory for one.
inline Cord* cord_here() {
    Cord* cord = this_cord;
    return cord ? cord : cord_open();
}

} // namespace fiberrt
