// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord in a foreign loop: the loop owns the thread, and runs the cord whenever the cord's descriptor is readable.
//
// The descriptor is an epoll of the backend's own, by which come completions and, since a backend waits for the
// doorbell too, messages; and of a timer. Between the runs the cord is parked as if it slept: its word says so,
// everything is with the kernel, the timer stands at the next deadline, and the thread has no this_cord. So all that
// every call looks at stays as it is: the thread's next call that needs the cord takes the slow way of a thread that
// has none, and takes it up again. From then until the next run nobody rings; so the timer is made to expire at once.
//
//   run ──────▶ leave() ─────▶ parked ──── the descriptor is readable iff a run would do something ────▶ run
//                                └──────▶ resume() by the thread's own call ───── it is readable ──────▶ run
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;

// Makes the descriptor, for a cord whose backend is open; readable until the first run. 0, -EMFILE, -ENFILE, -ENOMEM,
// -ENOTSUP.
int embed(Cord& cord);

// In the child of a fork: closes what the parent goes on using.
void embed_forked(Cord& cord);

// Runs the fibers until none is runnable, but no longer than a time slice; if none was, waits for that until the
// deadline at most. Called by the main flow, which is not in a no-switch section. 0; 1: some are runnable; or what
// keeps the main flow from it.
int run(Cord& cord, int64_t deadline);

// When the next run is due if nothing comes; 0: now.
int64_t next_run(Cord& cord);

} // namespace fiberrt
