// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/figures.h"

#include "core/handles.h"
#include "debug/describe.h"
#include "debug/look.h"

#include <errno.h>
#include <string.h>

namespace fiberrt {

int Figures::collect() {
    cords.each([&](Cord*) { slots_++; });
    if (!slots_) return 0;
    cords_ = arena_.make<CordFigures>(slots_);
    if (!cords_) return -ENOMEM;
    cords.each([&](Cord* cord) { add_cord(cord); });
    fibers.each([&](Fiber* fiber) { add_fiber(fiber); });
    return 0;
}

void Figures::add_cord(Cord* cord) {
    uint32_t generation = cord->generation.load(std::memory_order_acquire);
    if (!(generation & 1) || cord->index >= slots_) return; // the table may have grown
    CordFigures& figures = cords_[cord->index];
    {
        Locked locked(cord->lock);
        memcpy(figures.name, cord->name, sizeof figures.name);
    }
    figures.name[sizeof figures.name - 1] = '\0';
    if (stats_of_any(*cord, generation, &figures.stats) == 0) figures.id = make_id(Tag::cord, cord->index, generation);
}

void Figures::add_fiber(Fiber* fiber) {
    uint64_t id = id_in(fiber);
    const Cord* cord = id ? cord_of(fiber) : nullptr;
    if (!cord || cord->index >= slots_) return;
    int state = state_of(fiber, {id});
    if (state >= 0) cords_[cord->index].fibers[state]++;
}

} // namespace fiberrt
