// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads of the library's own for what would block a cord's: one pool for all cords of the process. It grows with what
// is asked of it, up to a bound, and ends threads that had nothing to do for seconds. They run with all signals
// blocked.
#pragma once

#include "base/list.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

// Jobs of two lanes share the threads, but not their bounds: what the library itself has to do - on disks, opens - ends
// by itself, and does not wait behind functions of the program's, which may wait for anything, such operations
// included.
enum class Lane : uint8_t { operation, function };

// One job, in memory of whoever gives it, which stays until the job is taken back or handed back.
struct OffloadJob : Link {
    void (*run)(OffloadJob& job);  // on a thread of the pool,
    void (*done)(OffloadJob& job); // and there again: hands the job back, and does not block
    Lane lane = Lane::operation;
    bool queued = false; // and no thread has it yet; under the pool's lock
};

// False: there is no thread, and none can be made: nothing was done.
bool offload(OffloadJob& job);

// Takes a job back that no thread has yet: true, and it never runs. Else it is handed back when it has been done.
bool offload_cancel(OffloadJob& job);

// How many functions run at once; at least 1. More wait for these.
constexpr int offload_limit_most = 1024;
void offload_set_limit(int functions);

// Whether the calling thread is one of the pool's, or a simulation's while it does what such a one would. In the child of
// a fork it is the pool's no more.
extern thread_local constinit bool on_offload_thread;

extern std::atomic<int64_t> offload_idle_ns; // how long a thread without a job stays; tests set it
int offload_threads();                       // how many there are; for tests

// In the child of a fork: there are no threads, and nothing to do.
void offload_forked();

} // namespace fiberrt
