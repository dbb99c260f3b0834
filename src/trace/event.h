// SPDX-License-Identifier: MIT OR Apache-2.0
// The events that a cord notes in its ring while it is traced, in their order. The writer makes a trace of them
// (trace/story.h).
#pragma once

#include <stdint.h>

namespace fiberrt::trace {

enum class What : uint8_t {
    cord,     // the cord is traced from now on. text: its name; subject: its handle; number: its thread
    runs,     // `subject` runs from now on. object: its function, if this is its first run; state: its Kind
    parks,    // `subject` no longer runs; state, reason, detail, number and object say why
    held,     // the lock that `subject` waits for next is held by the fiber `object`
    runnable, // `subject` was woken, and waits for its turn. object: the fiber that woke it; 0: the poll
    ended,    // the function of `subject` has returned, or its task's
    named,    // text: the name of `subject`, at its first run or when it is set
    polls,    // the thread polls
    polled,   // it has polled
    sleeps,   // it sleeps, most often within a poll
    woke,     // it no longer sleeps
    counts,   // number: the fibers in the run queue; object: operations under way
    begin,    // a slice of the program's begins on `subject`. text: its name
    end,      // it ends
    value,    // a counter of the program's has the value `object`. text: its name
    dropped,  // from this time on, `object` events were dropped: there was no room
    leaves,   // the cord ends, or is no longer traced
};

struct Event {
    uint64_t time; // of the recorder's clock (record/clock.h)
    uint64_t subject;
    uint64_t object; // parks: the address of a primitive, or the handle of a fiber or a cord; 0: none
    int32_t number;  // parks: an operation's descriptor; a primitive's text, as wait_text_number has it
    What what;
    uint8_t state;  // parks: the State; runs: the Kind
    uint8_t reason; // parks, in the state waiting: the WaitFor
    uint8_t detail; // parks, for an operation: the OpCode; events with a text: how many bytes follow, in whole slots
};
static_assert(sizeof(Event) == 32, "two events to a cache line");

constexpr uint32_t text_most = 255; // bytes of a text in the ring; the rest is cut off

constexpr uint32_t slots_of_text(uint32_t length) { return uint32_t((length + sizeof(Event) - 1) / sizeof(Event)); }

// Whether slots of text follow an event.
constexpr bool has_text(What what) {
    switch (what) {
    case What::cord:
    case What::named:
    case What::begin:
    case What::value: return true;
    default: return false;
    }
}

} // namespace fiberrt::trace
