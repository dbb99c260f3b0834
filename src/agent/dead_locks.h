// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts the deadlocks of the process, as dumps find them.
#pragma once

#include <stdint.h>

namespace fiberrt {

class Names;

struct DeadLocks {
    uint64_t circles; // of fibers that wait for each other for ever
    uint64_t fibers;  // in these circles
};

// Adds the names of these fibers to `names`. 0, -ENOMEM.
int count_dead_locks(DeadLocks* out, Names& names);

} // namespace fiberrt
