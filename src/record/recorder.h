// SPDX-License-Identifier: MIT OR Apache-2.0
// The recorder: tells its consumers when fibers run, wait and become runnable, on all cords of the process.
//
// It is off until a consumer wants it. Then each cord takes the slow way at its switches (CordWorld::hooked), and calls
// the recorder (RecorderOps, core/parts.h). Nothing else of the library calls it, so cords pay nothing while it is off.
//
//   recorder_want(consumer)            another cord
//     wanted |= consumer
//     a message to each cord ────────▶   receives it at its next poll, or wakes for it:
//     its own cord: at once              hooked |= hooked_by_recorder
//   a cord made later: when it begins
//
// Wakeups do not call the recorder. At each switch and each poll, the recorder looks at the fibers that have entered
// the run queue since the last switch or poll: the fiber that gives way now, or the poll that ends now, made them
// runnable.
#pragma once

#include "record/records.h"

#include <stdint.h>

namespace fiberrt {

// Bits of CordRecord::consumers.
enum class Consumer : uint8_t { accounting = 1, trace = 2, probes = 4 };

// The functions by which a consumer receives events. All are set. The recorder calls them on the cord's thread; they
// may neither switch nor call the user. Times are in ticks (record/clock.h).
struct RecorderConsumer {
    // The cord is recorded from now on, or not any more.
    void (*cord_begins)(Cord& cord, uint64_t now);
    void (*cord_ends)(Cord& cord, uint64_t now);
    // The fiber stops running. why: what it does instead. If its state is `waiting` (core/fiber.h), fiber->wait is its
    // Wait. A fiber that calls a poll stops, too, and runs again after it. Also called for a stackless fiber that does
    // not run, when the cord hands it out to its host, or the host gives it back.
    void (*stops)(Cord& cord, Fiber* fiber, Doing why, uint64_t now);
    // The fiber, which does not run, is runnable. waker: the handle of the fiber that woke it; 0: the poll did. Not
    // called for a fiber that queues itself.
    void (*runnable)(Cord& cord, Fiber* fiber, uint64_t waker, uint64_t now);
    // The fiber runs. first: it is its first turn; of a fiber without a stack: in this recording.
    void (*runs)(Cord& cord, Fiber* fiber, bool first, uint64_t now);
    // The fiber, which runs, begins this task; its handle is new since its last one.
    void (*task_begins)(Cord& cord, Fiber* fiber, void* (*fn)(void*), uint64_t now);
    // The fiber has ended, or its task has. Its handle and its name are still valid. This may be the only call about
    // the fiber.
    void (*ended)(Cord& cord, Fiber* fiber, uint64_t now);
    // The thread polls, outside any fiber; it sleeps during a poll.
    void (*poll_begins)(Cord& cord, uint64_t now);
    void (*poll_ends)(Cord& cord, uint64_t now);
    void (*sleeps)(Cord& cord, uint64_t now);
    void (*woke)(Cord& cord, uint64_t now);
};

// Turns a consumer on, on all cords. functions: null for accounting, which the recorder itself does. Returns 0;
// -EALREADY: it is on; -ENOMEM; -ENOTSUP: the calling thread may have no cord in a simulation. Cords of other threads
// follow at their next poll. All of the cords that this call finds have records.
int recorder_want(Consumer consumer, const RecorderConsumer* functions);

// Turns it off. 0; -EALREADY: it is off; -ENOMEM, -ENOTSUP as above. Cords of other threads follow at their next poll.
int recorder_want_no_more(Consumer consumer);

bool recorder_wanted(Consumer consumer);

// The number of the present recording, as in record_key(). It changes when accounting begins, and when the recorder is
// turned on.
uint32_t recording_number();

// Makes the times of record/clock.h valid, for a thread of a consumer that reads them before the consumer is turned on.
void recorder_ticks_begin();

// Does what recorder_want does, before the first cord: for environment variables.
void recorder_want_at_begin(Consumer consumer, const RecorderConsumer* functions);

// For fork: between lock and unlock, nothing is turned on or off.
void recorder_lock();
void recorder_unlock();
void recorder_forked(Cord* own); // in the child: its cord; null: there is none

// The rest is the interface between record/recorder.cc, which turns the recorder on and off, and record/events.cc. This
// function changes for which consumers a cord is recorded; 0: for none. On the cord's thread.
void cord_recording_change(Cord& cord, uint8_t consumers, uint32_t recording);
const RecorderOps& recorder_ops(uint8_t consumers); // the table of a cord with these consumers

// The functions of consumers, by the number of their bit.
extern Relaxed<const RecorderConsumer*> recorder_consumers[consumer_slots];

} // namespace fiberrt
