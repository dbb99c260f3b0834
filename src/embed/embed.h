// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord in a foreign loop: the loop owns the thread, and runs the cord whenever the cord's descriptor is readable.
//
// The descriptor is an epoll of the backend's descriptor, which reports completions and the doorbell, and of a timer.
// Between the runs the cord is suspended. To other threads it looks asleep: its word says so, the kernel has all
// operations, the timer is set to the next deadline, and the thread's this_cord is null. The thread's next call that
// needs the cord takes the slow way of a thread without a cord, and resumes the cord. From then until the next run no
// other thread rings; so resume() sets the timer to expire at once.
//
//   run ────▶ suspend() ───▶ suspended ─── the descriptor is readable iff a run would do something ───▶ run
//                                └──────▶ resume() by the thread's own call ─── it is readable ───────▶ run
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;

// Makes the cord's descriptor; the backend must be open. The descriptor is readable until the first run. 0, -EMFILE,
// -ENFILE, -ENOMEM, -ENOTSUP.
int embed(Cord& cord);

// In the child of a fork: closes the descriptors, which the parent goes on using.
void embed_forked(Cord& cord);

// Runs the fibers until none is runnable, but no longer than a time slice. If none is runnable at first, waits for one,
// at most until the deadline. The main flow calls it, outside of no-switch sections. 0; 1: fibers are still runnable;
// or the main flow's pending cancel, interrupt or timeout.
int run(Cord& cord, int64_t deadline);

// When the next run is due, if no event comes before; 0: now.
int64_t next_run(Cord& cord);

} // namespace fiberrt
