// SPDX-License-Identifier: MIT OR Apache-2.0
// Accounting: adds up for how long fibers run, are runnable and wait, and for how long cords run fibers, poll and
// sleep. Here are the functions that change the records (record/events.cc calls them at each event), and those that
// read them.
#pragma once

#include "record/records.h"

#include <stdint.h>

namespace fiberrt {

// Changes to a fiber's record, on its cord's thread.

inline void add_to(std::atomic<uint64_t>& sum, uint64_t more) {
    sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_release);
}

// The fiber, which ran, does something else from now on. Returns how long it ran.
inline uint64_t account_stop(FiberRecord& its, Doing why, uint64_t now) {
    uint64_t slice = now - its.since.load(std::memory_order_relaxed);
    its.since.store(now, std::memory_order_relaxed);
    add_to(its.run, slice);
    its.doing.store(why, std::memory_order_release);
    its.settled.store(now, std::memory_order_release);
    return slice;
}

// The fiber, which waited, is runnable from now on.
inline void account_runnable(FiberRecord& its, uint64_t now) {
    uint64_t waited = now - its.since.load(std::memory_order_relaxed);
    int kind = int(its.doing.load(std::memory_order_relaxed)) - int(first_wait);
    its.since.store(now, std::memory_order_relaxed);
    add_to(its.waits[kind], waited);
    its.doing.store(Doing::runnable, std::memory_order_release);
    its.settled.store(now, std::memory_order_release);
}

// The fiber, which did not run, does something else from now on, and does not run either.
void account_change(FiberRecord& its, Doing doing, uint64_t now);

// The fiber, which was runnable, runs from now on.
inline void account_run(FiberRecord& its, uint64_t now) {
    uint64_t runnable = now - its.since.load(std::memory_order_relaxed);
    its.since.store(now, std::memory_order_relaxed);
    add_to(its.runnable, runnable);
    add_to(its.turns, 1);
    its.doing.store(Doing::runs, std::memory_order_release);
    its.settled.store(now, std::memory_order_release);
}

// The fiber begins a record with no times.
void account_begin(FiberRecord& its, uint64_t key, void* function, Doing doing, uint64_t now);

// The fiber has ended: adds its times to the sums of its cord. fibers: 1; 0 for the time between two tasks.
void account_end(CordRecord& cord, Fiber* fiber, FiberRecord& its, uint64_t now, uint64_t fibers);

// Changes to a cord's record, on its thread. The cord does `next` from now on.
inline void account_phase(CordRecord& cord, Phase next, uint64_t now) {
    Phase phase = cord.phase.load(std::memory_order_relaxed);
    uint64_t passed = now - cord.since.load(std::memory_order_relaxed);
    cord.since.store(now, std::memory_order_relaxed);
    if (phase == Phase::polls) add_to(cord.poll, passed);
    if (phase == Phase::sleeps) add_to(cord.sleep, passed);
    cord.phase.store(next, std::memory_order_release);
    cord.settled.store(now, std::memory_order_release);
}
void account_cord_begin(CordRecord& cord, uint64_t key, uint64_t now);

// For readers, on any thread.

// Reads the times of a fiber up to `now`; doing: what it does. False: the record changed during each try.
bool times_of(const FiberRecord& its, uint64_t now, Times& out, Doing& doing);

struct CordTimes {
    uint64_t run, poll, sleep;
};
bool times_of(const CordRecord& cord, uint64_t now, CordTimes& out);

} // namespace fiberrt
