// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts the processors that the cords may run on.
#include "core/processors.h"

#include "base/keep_errno.h"
#include "core/cord.h"

#include <string.h>

namespace fiberrt {

namespace {

void see_own(Processors& own) {
    uint64_t set[Processors::words] = {};
    cpu_set_t allowed;
    static_assert(sizeof set == sizeof allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) memcpy(set, &allowed, sizeof set);
    for (int i = 0; i < Processors::words; i++) own.set[i].store(set[i], std::memory_order_relaxed);
}

} // namespace

void processors_count(Cord& cord) {
    KeepErrno keep;
    see_own(cord.processors);
    uint64_t all[Processors::words] = {};
    cords.each([&](Cord* other) {
        if (!(other->generation.load(std::memory_order_relaxed) & 1)) return;
        for (int i = 0; i < Processors::words; i++) all[i] |= other->processors.set[i].load(std::memory_order_relaxed);
    });
    int count = 0;
    for (uint64_t word : all) count += __builtin_popcountll(word);
    cord.sleep.cpus = count;
    cord.sleep.cpus_counted_ns = cord.poll.last_ns;
}

} // namespace fiberrt
