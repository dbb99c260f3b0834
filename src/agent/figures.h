// SPDX-License-Identifier: MIT OR Apache-2.0
// The figures of all cords and of their fibers, collected once, so that all parts of a text about them agree.
#pragma once

#include "base/arena.h"
#include "core/cord.h"
#include "fiberrt.h"

#include <stdint.h>

namespace fiberrt {

constexpr int fiber_states = FIBER_DEAD + 1;

struct CordFigures {
    uint64_t id; // 0: the slot has no cord
    char name[cord_name_max];
    fiber_stats_t stats;
    uint32_t fibers[fiber_states]; // by their states
};

class Figures {
public:
    int collect(); // 0, -ENOMEM

    template <class Visit>
    void each_cord(Visit visit) const {
        for (uint32_t i = 0; i < slots_; i++) {
            if (cords_[i].id) visit(cords_[i]);
        }
    }

private:
    void add_cord(Cord* cord);
    void add_fiber(Fiber* fiber);

    Arena arena_;
    CordFigures* cords_ = nullptr; // by the cords' indices
    uint32_t slots_ = 0;
};

} // namespace fiberrt
