// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/figures.h"

#include "core/handles.h"
#include "debug/describe.h"
#include "debug/look.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

namespace fiberrt {

Figures::~Figures() {
    if (cords_) munmap(cords_, slots_ * sizeof *cords_);
}

int Figures::collect() {
    cords.each([&](Cord*) { slots_++; });
    if (!slots_) return 0;
    // Not by malloc, whose locks a stuck thread of the program may hold.
    void* memory = mmap(nullptr, slots_ * sizeof *cords_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -ENOMEM;
    cords_ = static_cast<CordFigures*>(memory);
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
