// SPDX-License-Identifier: MIT OR Apache-2.0
// What the library tells of itself.
#include "api/api.h"
#include "io/backend.h"

#include <string.h>

using namespace fiberrt;

void api::copy_out(void* out, size_t size, const void* known, size_t known_size) {
    size_t common = size < known_size ? size : known_size;
    memcpy(out, known, common);
    memset(static_cast<char*>(out) + common, 0, size - common);
}

int fiber_stats(fiber_stats_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    Cord* cord = cord_to_look_at();
    if (!cord) return no_cord();
    fiber_stats_t stats = {};
    stats.switches = cord->switches();
    stats.instant_resumes = cord->instant_resumes;
    stats.polls = cord->polls;
    stats.blocking_polls = cord->blocking_polls;
    stats.ops = cord->io ? cord->io->given : 0;
    stats.fibers = cord->fiber_count;
    stats.stacks = cord->stacks.in_use();
    stats.stacks_free = cord->stacks.free();
    stats.ops_in_flight = cord->io ? cord->io->in_flight : 0;
    stats.stacks_high_water = cord->stacks.made();
    stats.stacks_trimmed = cord->stacks.trimmed();
    stats.stack_bytes = cord->stacks.committed_bytes();
    api::copy_out(out, size, &stats, sizeof stats);
    return 0;
}
