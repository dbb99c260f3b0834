// SPDX-License-Identifier: MIT OR Apache-2.0
// A barrier: its waiters go on together once as many callers as it counts have arrived.
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct Barrier : Waiters {
    int64_t count = 0;   // how many callers make a round; 0: it was not initialised
    int64_t arrived = 0; // in this round: waiters that have not been counted into a complete one
    int64_t counted = 0; // waiters that have been, and are still in the list: their waits were stopped at that moment
};

// 1: the caller was the last to arrive; 0; -EINVAL the barrier was not initialised; why the wait ended early.
int barrier_wait(Barrier& barrier, Caller caller, int64_t timeout_ns);

} // namespace fiberrt
