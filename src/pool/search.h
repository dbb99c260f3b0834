// SPDX-License-Identifier: MIT OR Apache-2.0
// The search for tasks: workers say that they are idle, and take tasks from each other. Why no task is missed is in
// worker.h.
#pragma once

#include "pool/worker.h"

namespace fiberrt {

// The worker says that it is idle; take_bit takes that back. False: another thread has taken it back.
void become_idle(Worker& worker);
bool take_bit(const Worker& worker);

// Whether there are tasks in any queue that other workers may take from.
bool anything_left(const Pool& pool);

// Pops the oldest task that any worker may take. Under the worker's lock.
bool pop_task(Worker& worker, Task* out);

// Searches the other workers' queues. True: there may be tasks in the worker's own queue now.
bool search(Worker& worker);
void stop_searching_now(Worker& worker);
inline void stop_searching(Worker& worker) { // for each task: most workers do not search
    if (worker.searches) [[unlikely]]
        stop_searching_now(worker);
}

// A thread that was counted in Pool::searching searches no more, and does not say whether it has found anything.
void cease_to_search(Pool& pool);

// A task was put where a worker may take it: calls an idle worker to search for it, unless one searches.
void call_searcher(Pool& pool);

// Takes the bit of an idle worker, of one that is awake and spins if there is any. Null: none is idle. The caller must
// call the worker then, if only by worker_wake: no other thread would ever again.
Worker* take_idle(Pool& pool);

} // namespace fiberrt
