// SPDX-License-Identifier: MIT OR Apache-2.0
// A pool of threads for jobs that would block a cord's thread; all cords of the process share it.
//
// The pool makes threads as jobs need them, up to a bound, and ends threads that had no job for seconds. The threads
// block all signals.
#pragma once

#include "base/list.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

// The two kinds of jobs share the threads, but each has its own bound. The library's own operations (on disks, opens)
// end by themselves. They do not wait behind the program's functions, which may wait for anything, even for such an
// operation.
enum class Lane : uint8_t { operation, function };

// One job. Its memory belongs to the caller of offload(), and stays valid until the job is cancelled or done() is
// called.
struct OffloadJob : Link {
    void (*run)(OffloadJob& job);  // runs on a thread of the pool
    void (*done)(OffloadJob& job); // then called there: hands the job back; must not block
    Lane lane = Lane::operation;
    bool queued = false; // no thread has it yet; under the pool's lock
};

// Hands a job to the pool. False: there is no thread and none can be made, and nothing was done.
bool offload(OffloadJob& job);

// Takes a job back. True: no thread had begun it, and it never runs. False: done() will hand it back.
bool offload_cancel(OffloadJob& job);

// Sets how many functions may run at once, at least 1. Further functions wait.
constexpr int offload_limit_most = 1024;
void offload_set_limit(int functions);

// Whether the calling thread belongs to the pool, or is a simulation's thread while it runs a pool's function. In the
// child of a fork the thread does not belong to the pool any more.
extern thread_local constinit bool on_offload_thread;

extern std::atomic<int64_t> offload_idle_ns; // how long a thread waits for a job before it ends; tests set it
int offload_threads();                       // how many threads there are; for tests

// In the child of a fork: empties the pool, which has no threads and no jobs there.
void offload_forked();

} // namespace fiberrt
