// SPDX-License-Identifier: MIT OR Apache-2.0
// The ring by which a cord hands its events to the writer: the cord's thread puts events in, the writer takes them out.
// The cord never waits. If there is no room, the cord drops the event and counts it; the count follows as an event of
// its own as soon as half of the ring is free.
#pragma once

#include "trace/event.h"
#include "trace/known.h"

#include <atomic>
#include <stddef.h>
#include <stdint.h>

namespace fiberrt::trace {

class Ring {
public:
    // slots: a power of two, at least `slots_least`. half_full is called when the ring is half full, and again at each
    // event until the cord sees that the writer has made room. always: it is called before each event, and empties the
    // ring. Null: there is no memory.
    static Ring* make(uint32_t slots, uint32_t session, void (*half_full)(), bool always);
    static constexpr uint32_t slots_least = 64;
    static constexpr uint32_t slots_most = 1u << 24;

    // The ring has two owners, the cord and the writer. The last that leaves it frees it.
    void leave();

    const uint32_t session; // the number of its trace

    // For the cord.
    void put(const Event& event) {
        uint64_t tail = tail_.load(std::memory_order_relaxed);
        if (tail + 1 > limit_) [[unlikely]] {
            if (!make_room(event.time, 1)) return;
            tail = tail_.load(std::memory_order_relaxed);
        }
        slots()[tail & mask_] = event;
        tail_.store(tail + 1, std::memory_order_release); // release: the writer that sees the tail sees the event
    }
    // Puts an event with a text, of which the first text_most bytes count.
    void put(Event event, const char* text, size_t length);
    void close() { closed_.store(true, std::memory_order_release); } // the cord puts no more events in

    // For the writer. look() finds the events that are there by now. If closed() was true before look(), they are the
    // last.
    bool closed() const { return closed_.load(std::memory_order_acquire); }
    // Acquire: an event below the tail is whole.
    void look() { seen_ = tail_.load(std::memory_order_acquire); }
    bool has_event() const { return taken_ != seen_; }
    uint64_t next_time() { return slots()[taken_ & mask_].time; } // of the next event, if there is one
    // Takes the next event, and stores its text as a C string.
    Event take(char (&text)[text_most + 1]) {
        const Event event = slots()[taken_ & mask_];
        uint64_t before = taken_;
        taken_ += 1 + copy_text(event, text);
        if ((before ^ taken_) & ~uint64_t(hand_back - 1)) give_back();
        return event;
    }
    // Gives the slots of the events taken back to the cord. Release: the cord overwrites them only after this.
    void give_back() { head_.store(taken_, std::memory_order_release); }
    uint64_t dropped() const { return all_dropped_.load(std::memory_order_relaxed); } // events since it was made

    // The writer's own.
    Ring* next = nullptr; // in its list of rings
    KnownCord cord = {};
    bool ends = false;    // the cord puts no more events in
    uint64_t counted = 0; // of dropped()

private:
    static constexpr uint32_t hand_back = 256; // slots after which the writer tells the cord of the room

    Ring(uint32_t slots, uint32_t session, void (*half_full)(), bool always)
        : session(session), mask_(slots - 1), always_(always), half_full_(half_full), limit_(always ? 0 : slots / 2) {}
    Event* slots() { return reinterpret_cast<Event*>(this + 1); }
    uint32_t size() const { return mask_ + 1; }
    bool make_room(uint64_t now, uint32_t wanted);
    uint32_t copy_text(const Event& event, char (&text)[text_most + 1]);

    const uint32_t mask_;
    const bool always_;
    void (*const half_full_)();
    std::atomic<uint32_t> owners_{2};
    // The cord's line.
    alignas(64) std::atomic<uint64_t> tail_{0}; // slots put in so far
    uint64_t limit_;                            // up to here the cord need not look at head_
    uint64_t dropped_ = 0;                      // since the last event that was put in
    uint64_t dropped_since_ = 0;
    std::atomic<uint64_t> all_dropped_{0};
    std::atomic<bool> closed_{false};
    // The writer's line.
    alignas(64) std::atomic<uint64_t> head_{0}; // slots given back so far
    uint64_t taken_ = 0;                        // slots taken so far
    uint64_t seen_ = 0;                         // tail_ at the last look
};

} // namespace fiberrt::trace
