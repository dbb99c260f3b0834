// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations on threads of the pool (io/offload.h): those that would block the cord's thread.
#pragma once

#include "core/cord.h"
#include "io/offload.h"
#include "io/op.h"

namespace fiberrt {

// An operation on its way to the pool and back. It lies on the stack of the fiber, which waits until the message has
// come home.
struct OpJob : OffloadJob, Message {
    Op* op;
    Cord* home;
    int64_t result = 0;

    OpJob(Cord& cord, Op& operation);
};

// Whether threads of the pool cannot run while the cord's thread waits: Valgrind runs one thread at a time, and takes
// the enter of a ring for a call that does not wait.
bool waits_stop_the_pool(const Cord& cord);

// Hands an operation to the pool; the fiber must park in it then. False: there is no thread for it.
bool begin_elsewhere(Cord& cord, Op& op, OpJob& job);

} // namespace fiberrt
