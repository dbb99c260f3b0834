// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs operations that would block the cord's thread on threads of the pool (io/offload.h).
#pragma once

#include "core/cord.h"
#include "io/offload.h"
#include "io/op.h"

namespace fiberrt {

// An operation on its way to the pool and back. It lies on the stack of the fiber, which waits until the pool's message
// is back on its cord.
struct OpJob : OffloadJob, Message {
    Op* op;
    Cord* home;
    int64_t result = 0;

    OpJob(Cord& cord, Op& operation);
};

// Whether no thread of the pool can run while the cord's thread waits. That is so under Valgrind with a ring: it runs
// one thread at a time, and does not know that entering a ring waits.
bool waits_stop_the_pool(const Cord& cord);

// Hands an operation to the pool; the fiber must then park in it. False: no thread can perform it.
bool begin_elsewhere(Cord& cord, Op& op, OpJob& job);

} // namespace fiberrt
