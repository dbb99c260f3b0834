// SPDX-License-Identifier: MIT OR Apache-2.0
// What the recorder keeps of each fiber and of each cord.
//
// A fiber's record lies in a separate table, at the index of the fiber's slot: the control block has no room for it,
// and a fiber that is not recorded has no memory there. The thread of the fiber's cord writes the record; any thread
// may read it (record/times.h). A cord's record is made when a cord of its slot is first recorded, and stays for the
// later cords of the slot.
#pragma once

#include "base/relaxed.h"
#include "core/cord.h"
#include "core/fiber.h"
#include "core/inbox.h"
#include "core/run_queue.h"
#include "core/wait.h"
#include "record/histogram.h"
#include "record/sums.h"

#include <array>
#include <atomic>
#include <stdint.h>

namespace fiberrt {

// What a fiber does.
enum class Doing : uint8_t {
    ended,
    runs,
    runnable, // also: it waits for a stack, or for its host to run it
    waits_for_time,
    waits_for_io,
    waits_for_lock,
    waits_for_channel,
    waits_for_fiber,
    waits_for_children,
    waits_for_wakeup,
    waits_for_other,
};
constexpr Doing first_wait = Doing::waits_for_time;
static_assert(int(Doing::waits_for_other) - int(first_wait) + 1 == wait_kinds);

// What a fiber in such a Wait does.
constexpr Doing doing_of(WaitFor what) {
    switch (what) {
    case WaitFor::time: return Doing::waits_for_time;
    case WaitFor::fiber:
    case WaitFor::foreign_fiber:
    case WaitFor::cord:
    case WaitFor::quiet: return Doing::waits_for_fiber;
    case WaitFor::children: return Doing::waits_for_children;
    case WaitFor::op:
    case WaitFor::uses:
    case WaitFor::position: return Doing::waits_for_io;
    case WaitFor::primitive: return Doing::waits_for_lock;
    case WaitFor::channel:
    case WaitFor::select: return Doing::waits_for_channel;
    case WaitFor::something:
    case WaitFor::pool:
    case WaitFor::offload:
    case WaitFor::executor:
    case WaitFor::exchange:
    case WaitFor::call: return Doing::waits_for_other;
    }
    return Doing::waits_for_other; // coverage: never
}

// The state `waiting` is not in the table: the Wait tells more.
constexpr Doing doing_of(State state) {
    switch (state) {
    case State::scheduled:
    case State::awaiting_stack:
    case State::queued:
    case State::woken:
    case State::offered: return Doing::runnable;
    case State::yielding:
    case State::transferring: return Doing::waits_for_wakeup;
    case State::dead: return Doing::ended;
    case State::waiting:
    case State::created:
    case State::running: // see doing_now()
    case State::handed_out: return Doing::waits_for_other;
    }
    return Doing::waits_for_other; // coverage: never
}

// What a stopped fiber does, by its state and its Wait. For the thread of the fiber's cord. if_running: the result for
// a fiber with a stack whose state still says that it runs. A fiber without a stack has that state when its step has
// just returned: the cord is about to queue it, or it waits for a wakeup.
inline Doing doing_now(const Fiber* fiber, Doing if_running) {
    static constexpr auto by_state = [] {
        std::array<Doing, int(State::dead) + 1> all = {};
        for (size_t i = 0; i < all.size(); i++) all[i] = doing_of(State(i));
        return all;
    }();
    State state = fiber->sched.state;
    if (state == State::waiting) return doing_of(fiber->wait->what);
    if (state == State::running) [[unlikely]]
        return fiber->uses_stack() ? if_running : Doing::waits_for_wakeup;
    return by_state[size_t(state)];
}

// The times of a fiber, in ticks (record/clock.h). A change begins with `since` and ends with `settled`, which gets the
// same value. So a reader that finds an equal pair, read in the other order around the rest, has a record of one
// moment. Each store of a change is a release, and each load of a reader an acquire; on x86 both are plain.
struct alignas(64) FiberRecord {
    // The number of the recording, and the generation of the fiber's slot. Another key than the fiber's means that the
    // recorder has not seen the fiber in this recording. Released after all other members have their first values, 0
    // before.
    std::atomic<uint64_t> key;
    std::atomic<uint64_t> since; // when it began to do what it does
    std::atomic<uint64_t> settled;
    std::atomic<uint64_t> run; // sums up to `since`
    std::atomic<uint64_t> runnable;
    std::atomic<uint64_t> turns; // how often it got the thread
    std::atomic<void*> function; // of the fiber or task; without a stack: its step. Null: not known, or the library's
    std::atomic<Doing> doing;
    alignas(64) std::atomic<uint64_t> waits[wait_kinds];
};
static_assert(sizeof(FiberRecord) == 128);

constexpr uint64_t record_key(uint32_t recording, uint32_t generation) {
    return uint64_t(recording) << 32 | generation;
}

// The records of all fibers that there can ever be: address space, of which the first `room` records are usable. Slots'
// indices are dense, so there are few more of these than of fibers.
struct FiberRecords {
    std::atomic<FiberRecord*> all;
    std::atomic<uint32_t> room;

    FiberRecord* find(const Fiber* fiber) const {
        // Acquire: pairs with the release in record_of_index().
        if (fiber->index >= room.load(std::memory_order_acquire)) [[unlikely]]
            return nullptr;
        return all.load(std::memory_order_relaxed) + fiber->index;
    }
};
extern FiberRecords fiber_records;

// The fiber's record, for its cord's thread. If there is no memory for it, returns a record that all such fibers share,
// and that no thread reads.
[[gnu::cold]] FiberRecord& record_of_index(uint32_t index);
inline FiberRecord& record_of(const Fiber* fiber) {
    FiberRecord* record = fiber_records.find(fiber);
    return record ? *record : record_of_index(fiber->index);
}

// The fiber's record, for any thread; null: it has none.
inline const FiberRecord* record_if_any(const Fiber* fiber) { return fiber_records.find(fiber); }
bool record_memory_lacks(); // there was no memory for the record of some fiber

// For fork: between lock and unlock, no thread makes records usable.
void records_lock();
void records_unlock();

constexpr uint8_t consumer_slots = 4;

enum class Phase : uint8_t { runs, polls, sleeps };

struct alignas(64) CordRecord {
    // Only the cord's thread touches these. The fiber that has the thread; null: the cord polls or sleeps, or a fiber
    // has ended and the next one does not run yet.
    Fiber* current;
    FiberRecord* current_record;
    RunQueue::Place seen; // the run queue's end at the last look
    uint64_t waker;       // the handle of the fiber that has just ended, until the next fiber runs; 0: none
    uint64_t poll_since;  // when the last poll ended, or the present one began
    uint64_t slept;       // in the present poll

    // The number of the recording as in record_key(), without a generation; 0: none yet. A reader acquires the
    // generation, or for the sums the key, which are released after the first values of all members below.
    std::atomic<uint64_t> key;
    std::atomic<uint32_t> generation; // of the cord
    Relaxed<uint8_t> consumers;       // bits of Consumer; 0: the cord is not recorded

    // The cord's times, changed as a fiber's are. The cord has run fibers when it neither polled nor slept.
    std::atomic<uint64_t> since; // when the phase began
    std::atomic<uint64_t> settled;
    std::atomic<Phase> phase;
    std::atomic<uint64_t> begun; // when the recording began
    std::atomic<uint64_t> poll;
    std::atomic<uint64_t> sleep;
    Histogram slices; // for how long fibers had the thread
    Histogram lags;   // from the end of a poll to the beginning of the next, without sleeps
    Histogram polls;  // how long polls took, without sleeps

    SumTable sums[sum_kinds]; // of fibers that have ended

    // Turning the recorder on and off.
    Message message;
    Cord* cord;
    std::atomic<uint32_t> asked; // the generation of the cord that the message is on its way to; 0: none
};

// The record of a cord's slot; null: no cord of the slot has ever been recorded. cord_record() makes the record; null:
// no memory.
CordRecord* cord_record_if_any(const Cord& cord);
CordRecord* cord_record(Cord& cord);

} // namespace fiberrt
