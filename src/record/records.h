// SPDX-License-Identifier: MIT OR Apache-2.0
// What the recorder keeps of each fiber and of each cord.
//
// A fiber's record lies in a table of its own, at the index of the fiber's slot: the control block has no room for it,
// and fibers that are not recorded touch no memory of it. The thread of the fiber's cord writes the record, any thread
// may read it. A cord's record is made when the cord is first recorded, and stays for the later cords of the slot.
#pragma once

#include "base/relaxed.h"
#include "core/cord.h"
#include "core/fiber.h"
#include "core/inbox.h"
#include "core/run_queue.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

// What a fiber does: it runs, is runnable, or waits for something of these kinds.
enum class Doing : uint8_t {
    runs,
    runnable, // in the run queue, or until a stack is free
    waits_for_time,
    waits_for_io,
    waits_for_lock,
    waits_for_channel,
    waits_for_fiber,
    waits_for_children,
    waits_for_wakeup,
    waits_for_other,
};
constexpr int wait_kinds = int(Doing::waits_for_other) - int(Doing::waits_for_time) + 1;

// What a fiber that does not run does, by its state and its Wait. For the thread of the fiber's cord.
Doing doing_now(const Fiber* fiber);

// Times are in ticks (record/clock.h).
struct alignas(64) FiberRecord {
    // The number of the recording, and the generation of the fiber's slot: another key than the fiber's means that the
    // fiber has not been seen in this recording.
    Relaxed<uint64_t> key;
    Relaxed<uint64_t> since; // when it began to do what it does
    Relaxed<Doing> doing;
    Relaxed<void*> function; // of the fiber or task; hosted: its step. Null: it had begun before, or is internal
};

constexpr uint64_t record_key(uint32_t recording, uint32_t generation) {
    return uint64_t(recording) << 32 | generation;
}

// The fiber's record, for its cord's thread. If there is no memory for it, a record that all such fibers share, which
// nothing reads.
FiberRecord& record_of(const Fiber* fiber);

// The same for readers: null if there is none.
FiberRecord* record_if_any(const Fiber* fiber);

constexpr uint8_t consumer_slots = 4;

// Only the cord's thread touches it, except for the members that other threads may read.
struct alignas(64) CordRecord {
    // The fiber that has the thread, since `since`; null: the cord polls, sleeps, or ends a fiber.
    Fiber* current;
    FiberRecord* current_record;
    Relaxed<uint64_t> since;    // when the present run, poll or sleep began
    RunQueue::Place seen;       // the run queue's end at the last look
    Relaxed<uint64_t> epoch;    // the number of the recording, shifted as in record_key(). 0: none yet
    Relaxed<uint8_t> consumers; // bits of Consumer; 0: the cord is not recorded
    uint64_t waker;             // the handle of the fiber that has just ended, until the next fiber runs; 0: none
    bool sleeping;

    // Turning the recorder on and off.
    Message message;
    Cord* cord;
    std::atomic<uint32_t> asked; // the generation of the cord that the message is on its way to; 0: none
};

// The record of a cord's slot; null: the cord has never been recorded. The second makes it: null, no memory.
CordRecord* cord_record_if_any(const Cord& cord);
CordRecord* cord_record(Cord& cord);

} // namespace fiberrt
