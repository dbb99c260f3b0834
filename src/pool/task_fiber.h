// SPDX-License-Identifier: MIT OR Apache-2.0
// Task fibers: fibers that run tasks (Kind::task_fiber), which worker.cc makes. At most one of a worker's fetches new
// tasks; see worker.h.
#pragma once

#include "pool/worker.h"

namespace fiberrt {

struct LeaveWait : Wait {
    Worker* worker;
    LeaveWait* next; // in Worker::leavers
};

// Wakes the fibers in worker_leave and worker_wait: each looks again whether it can leave.
void wake_leavers(Worker& worker);

// Makes a task fiber, which fetches tasks from now on. False: there is no memory for one now, or the worker is at its
// limit.
bool make_task_fiber(Cord& cord, Worker& worker);

// Whether the fetching fiber will look for tasks again by itself, without a wakeup.
bool fetching_fiber_goes_on(const Worker& worker);

// Whether as many tasks of the worker have begun as Pool::task_limit allows. Until one of these ends, the worker begins
// no task, and is not idle.
bool at_limit(const Worker& worker);

// Counts n tasks of the worker as ended.
void task_ended(Worker& worker, uint64_t n = 1);

// WorkOps::fiber_ended: a task fiber has ended within a task, or without having run.
void task_fiber_ended(Cord& cord, const Fiber* fiber);

// WorkOps::waits_for_stack: a task fiber waits for a stack, so other workers are called for the tasks here.
void task_fiber_waits(Cord& cord);

} // namespace fiberrt
