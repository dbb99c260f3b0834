// SPDX-License-Identifier: MIT OR Apache-2.0
// Fibers that run tasks (Kind::task_fiber). One of a worker at most takes new tasks, the taker; see worker.h.
#pragma once

#include "pool/worker.h"

namespace fiberrt {

struct LeaveWait : Wait {
    Worker* worker;
    LeaveWait* next; // in Worker::leavers
};
void wake_leavers(Worker& worker); // all of them look again

// Makes a fiber that takes tasks. False: there is no memory for one now, or the worker is at its limit.
bool make_taker(Cord& cord, Worker& worker);
bool taker_goes_on(const Worker& worker); // the taker will look for tasks again by itself

// Whether as many tasks of the worker have begun as are allowed. It begins the next one when one of these ends, and is not
// idle before.
bool at_limit(const Worker& worker);

void task_ended(Worker& worker, uint64_t n = 1); // so many

// For WorkOps: such a fiber has ended within a task, or unrun; it waits for a stack, and other workers take what there is.
void task_fiber_ended(Cord& cord, const Fiber* fiber);
void task_fiber_waits(Cord& cord);

} // namespace fiberrt
