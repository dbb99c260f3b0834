// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts the dead-locks of the process, as dumps find them.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct DeadLocks {
    uint64_t circles; // of fibers that wait for each other for ever
    uint64_t fibers;  // in them
};

// 0, -ENOMEM.
int count_dead_locks(DeadLocks* out);

} // namespace fiberrt
