// SPDX-License-Identifier: MIT OR Apache-2.0
// The search for tasks: a worker without tasks looks into the other workers' queues, and sets its idle bit if it finds
// none. Workers and submitters call these functions. worker.h says why no task is missed.
#pragma once

#include "pool/worker.h"

namespace fiberrt {

// Marks the worker as idle and sets its bit in Pool::idle. The caller must look at all queues after that.
void become_idle(Worker& worker);

// Clears the worker's idle bit. False: another thread has cleared it.
bool clear_idle_bit(const Worker& worker);

// Whether there are tasks in any queue that other workers may take from.
bool any_tasks_left(const Pool& pool);

// Pops the oldest task that any worker may take. Under the worker's lock.
bool pop_task(Worker& worker, Task* out);

// Searches the other workers' queues. True: there may be tasks in the worker's own queue now.
bool search(Worker& worker);

// Ends the worker's search, if it searches.
void stop_searching_now(Worker& worker);
inline void stop_searching(Worker& worker) { // for each task: most workers do not search
    if (worker.searches) [[unlikely]]
        stop_searching_now(worker);
}

// Takes a worker out of Pool::searching, and calls another searcher if tasks are left.
void end_search(Pool& pool);

// Calls an idle worker to search, unless one searches already. For a caller that has put a task where others may take
// it.
void call_searcher(Pool& pool);

// Clears the bit of an idle worker, if possible of one that is awake, and returns the worker. Null: none is idle. The
// caller must call that worker, at least by worker_wake: no other thread will.
Worker* take_idle(Pool& pool);

} // namespace fiberrt
