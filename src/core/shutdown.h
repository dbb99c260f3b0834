// SPDX-License-Identifier: MIT OR Apache-2.0
// Shutdown of cords, and waits for the end of a cord's other fibers. (core/cord.h declares cord_shutdown.)
#pragma once

#include "core/cord.h"
#include "core/life.h"
#include "core/scheduler.h"

#include <errno.h>
#include <stdint.h>

namespace fiberrt {

void stop_quiet(Wait* base, int reason);
void stop_quiet_at_deadline(Wait* base, int reason); // only the wait's deadline ends it early

// Waits until done() holds; called again at each end of a fiber. 0; -ETIMEDOUT at the deadline; if stoppable, also why
// the wait ended early.
template <class Done>
int wait_until_quiet(Cord& cord, int64_t deadline, bool stoppable, Done done) {
    while (!done()) {
        QuietWait wait;
        wait.cord = &cord;
        wait.stop = stoppable ? stop_quiet : stop_quiet_at_deadline;
        wait.on_deadline = -ETIMEDOUT;
        wait.what = WaitFor::quiet;
        cord.shutdown.quiet_waits.push_back(&wait);
        int error = int(park(cord, wait, deadline));
        if (error) return error;
    }
    return 0;
}

// Shuts down another cord, whose handle is id: starts a fiber there that calls cord_shutdown, and waits for it. Returns
// the fiber's result, or 0 if the cord has ended; -ENOMEM, -EAGAIN, -ESRCH; or why the caller's wait ended early: then
// the shutdown goes on.
int cord_shutdown_elsewhere(Cord& here, Cord* cord, uint64_t id, int64_t grace, int64_t deadline);

} // namespace fiberrt
