// SPDX-License-Identifier: MIT OR Apache-2.0
// How fibers come and go: creation, death, joining.
#pragma once

#include "base/list.h"
#include "core/cord.h"
#include "core/wait.h"

#include <stdint.h>

namespace fiberrt {

// What a fiber is to its cord's end. Internal ones are the library's own and count as nothing.
enum class Kind : uint8_t { keeps_cord, daemon, internal, main_flow };

// Makes a fiber, with its places in the run queue and the timers. 0, -ENOMEM, -EAGAIN.
int fiber_create(Cord& cord, Kind kind, Fiber** out);

// Makes a fiber for another cord, from any thread; send_new hands it over. fn and arg are set by the caller. 0, -ENOMEM,
// -EAGAIN.
int fiber_create_elsewhere(Cord& to, Kind kind, Fiber** out);
void fiber_create_undo(Fiber* fiber); // it could not be handed over

// Takes over a fiber that was made elsewhere; false: it could not, and the fiber has ended.
bool adopt(Cord& cord, Fiber* fiber);

// Gives a fiber's slot back; its handle is stale.
void fiber_free(Cord& cord, Fiber* fiber);

// A fiber that never ran, and is in no queue, ends.
void end_unrun(Cord& cord, Fiber* fiber, void* result, int error);

// Nobody will join it. It was not detached before.
void detach(Cord& cord, Fiber* fiber);

// Some on other cords wait for its end.
void joined_from_elsewhere(Cord& cord, Fiber* fiber);

// Waits for a fiber's end. 0 and the result; or why not.
int join(Cord& cord, Fiber* target, void** result, int64_t deadline);

// The current fiber's function has returned: runs what must run, wakes who waits, gives the thread away for good.
extern "C" [[noreturn]] void fiberrt_fiber_ended(Fiber* fiber, void* result);

} // namespace fiberrt
