// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations that would block their thread - on disks, opens - on threads of the library's own: one pool for all
// cords of the process. It grows with what is asked of it, up to a bound, and ends threads that had nothing to do for
// seconds. They run with all signals blocked.
#pragma once

#include "base/list.h"
#include "core/inbox.h"

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Op;

// One operation on its way there and back, in memory of its fiber's, which waits until the message has come home.
struct OffloadJob : Link, Message {
    Op* op;
    Cord* home;

    bool queued = false; // and no thread has it yet; under the pool's lock
    int64_t result = 0;

    OffloadJob(Cord& home, Op& op) : op(&op), home(&home) {}
};

// Hands a job to the pool. job.receive is called on its cord when it is done, with the result in it. False: there is no
// thread, and none can be made: nothing was done.
bool offload(OffloadJob& job);

// Asks for an early end. True: it had not begun, and will not: nothing comes. Else it comes home when what it does has
// ended.
bool offload_cancel(OffloadJob& job);

} // namespace fiberrt
