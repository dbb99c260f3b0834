// SPDX-License-Identifier: MIT OR Apache-2.0
// What the writer knows of the cords, and of each fiber that their events name.
#pragma once

#include "core/fiber.h"
#include "fiberrt.h"
#include "trace/event.h"
#include "trace/packets.h"

#include <stdint.h>

namespace fiberrt::trace {

// What the fiber does. The writer writes the slice of a run, or of the time in which a fiber is runnable, when it ends,
// because all is known then. It writes the slice of a wait when the wait begins, and leaves it open.
enum class Phase : uint8_t { unknown, runs, is_runnable, waits };

struct Known {
    uint64_t id;       // the fiber that the rest is about: the last one of the slot
    int64_t since;     // when the phase began
    int64_t runnable;  // in the phase runs: since when it was runnable before, if that is not written yet; else 0
    Event parked;      // in the phase runs: why the fiber has stopped, if it has
    int64_t until;     // in the phase runs: when it stopped; 0: it has not
    uint64_t flow;     // the arrow that ends at its next run; 0: none
    uint64_t function; // 0: not known
    uint64_t holder;   // the fiber that holds the lock that it waits for next; 0: none
    uint32_t cord;     // the index of its cord
    Phase phase;
    Kind kind;
    bool described;       // its track is in the trace
    bool spans_described; // the track of its slices of the program is in the trace
    uint16_t spans;       // how many slices of the program's are open
    char name[FIBER_NAME_MAX];
};

// What the writer knows of a cord.
struct KnownCord {
    uint64_t id;   // 0: nothing yet
    uint64_t runs; // the fiber that runs there; 0: none
    uint8_t open;  // slices of its polls and sleeps that are open
    bool counted;  // the counters below are in the trace
    int32_t runnable;
    uint64_t operations;
    int64_t last;     // the time of its last event
    uint64_t dropped; // events, as far as the trace shows
    size_t flow_count;
    uint64_t flows[Packets::flows_most]; // the arrows that begin in the present run: the fibers that it has woken
};

// The records of fibers, by the index of the fiber's slot. They are made when they are needed.
class KnownFibers {
public:
    // The record of the slot of this fiber. It may be about another fiber, or about none: id 0. Null: there is no
    // memory.
    Known* at(uint64_t id);
    // The record of this fiber; null: there is none.
    Known* find(uint64_t id) {
        const Known* chunk = chunks_[id_index(id) >> chunk_bits];
        return chunk && at(id)->id == id ? at(id) : nullptr;
    }
    void empty();

    template <class Visit>
    void each(Visit visit) {
        for (uint32_t i = 0; i < chunks_end_; i++) {
            for (uint32_t k = 0; chunks_[i] && k < chunk_size; k++) {
                if (chunks_[i][k].id) visit(chunks_[i][k]);
            }
        }
    }

private:
    static constexpr uint32_t chunk_bits = 12;
    static constexpr uint32_t chunk_size = 1u << chunk_bits;
    static constexpr uint32_t chunks = 1u << (24 - chunk_bits); // a handle has 24 bits of index

    Known* chunks_[chunks];
    uint32_t chunks_end_;
};

} // namespace fiberrt::trace
