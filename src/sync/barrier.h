// SPDX-License-Identifier: MIT OR Apache-2.0
// A barrier: callers wait until a given number of them have arrived, then all continue. That is one round; the next
// begins at once.
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct Barrier : Waiters {
    int64_t count = 0;   // the number of callers of a round; 0: the barrier was not initialised
    int64_t arrived = 0; // waiters of this round
    int64_t counted = 0; // waiters of a complete round that are still in the list, as their waits are being stopped
};

// Waits until the round is complete. 1: the caller was the last to arrive; 0; -EINVAL: the barrier was not initialised;
// or why the wait ended early.
int barrier_wait(Barrier& barrier, Caller caller, int64_t timeout_ns);

} // namespace fiberrt
