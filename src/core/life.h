// SPDX-License-Identifier: MIT OR Apache-2.0
// How fibers come and go: creation, death, joining.
#pragma once

#include "base/list.h"
#include "core/cord.h"
#include "core/wait.h"

namespace fiberrt {

// Makes a fiber, with its places in the run queue and the timers. 0, -ENOMEM, -EAGAIN.
int fiber_create(Cord& cord, Fiber** out);

// Gives a fiber's slot back; its handle is stale.
void fiber_free(Cord& cord, Fiber* fiber);

// A fiber that never ran, and is in no queue, ends.
void end_unrun(Cord& cord, Fiber* fiber, void* result, int error);

// Waits for a fiber's end. 0 and the result; or why not.
int join(Cord& cord, Fiber* target, void** result, int64_t deadline);

// The current fiber's function has returned: runs what must run, wakes who waits, gives the thread away for good.
extern "C" [[noreturn]] void fiberrt_fiber_ended(Fiber* fiber, void* result);

} // namespace fiberrt
