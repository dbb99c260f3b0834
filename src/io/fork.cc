// SPDX-License-Identifier: MIT OR Apache-2.0
// The I/O layer's part in a fork. The child has none of the parent's operations, rings, event loops and threads; it
// opens its own when it needs them.
#include "io/fork.h"

#include "core/cord.h"
#include "io/try_op.h"
#include "core/backend.h"
#include "io/closing.h"
#include "io/io.h"
#include "io/offload.h"
#include "io/op.h"

namespace fiberrt {

namespace {

void before() {
    closings_lock();
    backends_lock();
}

void after() {
    backends_unlock();
    closings_unlock();
}

void io_in_child(const Forked& forked) {
    closings_forked();
    try_op_forked();
    blocking_fallback_forked();
    offload_forked();
    cords.each([&](Cord* cord) {
        if (!(cord->generation.load(std::memory_order_relaxed) & 1)) return;
        if (cord->io) cord->io->disown(*cord, cord == forked.cord);
    });
}

} // namespace

constinit const ForkPart fork_part_of_io = {before, after, io_in_child};

} // namespace fiberrt
