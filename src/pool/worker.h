// SPDX-License-Identifier: MIT OR Apache-2.0
// A worker: a thread that works for a pool. Its cord is like any other, but looks for tasks before it sleeps: the cord
// calls the worker's WorkOps (core/parts.h) at these points.
//
//   the cord's queue is empty ──▶ tasks in its queues, or others' to steal? ── yes: a task fiber is made runnable
//                                   └ no: it sets its bit in Pool::idle, looks once more, and sleeps as cords do
//
// Tasks run in task fibers. A task fiber runs tasks on its own stack one after the other, so a task does not cost a new
// fiber. At most one task fiber of a worker fetches new tasks. When its task waits and nothing else can run, the worker
// makes another task fiber, which fetches from then on, and the first one ends with its task. Each task sees a fresh
// fiber: its handle is stale once the task has ended, and no state of the previous task is left.
//
// A worker takes many tasks from its queue at once (`batch`), so the worker and submitters seldom want the lock at the
// same time. With a lock for each task, competing for it cost more than the rest of the task's work. No task in a batch
// has begun, and other workers may steal it.
//
// The submitter puts a task into a queue, and calls an idle worker unless a worker searches already. No task is missed:
// a worker first sets its idle bit, then looks at all queues under their locks. Either it finds the task, or the
// submitter takes the lock later, and sees the idle bit. A worker that stops searching looks again in the same way.
#pragma once

#include "base/relaxed.h"
#include "base/spin_lock.h"
#include "core/cord.h"
#include "core/inbox.h"
#include "pool/tasks.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

struct LeaveWait;
struct Pool;
struct Worker;

struct WorkerMessage : Message {
    Worker* worker;
};

struct alignas(64) Worker {
    SpinLock lock; // protects the members of this cache line
    bool message_under_way = false;
    bool search_asked = false;         // by the message: its sender has counted this worker in Pool::searching
    bool idle = false;                 // it has nothing to run, and sleeps or is about to. Only its thread changes this
    bool leaving = false;              // it takes no tasks from other threads any more
    uint64_t serves = 0;               // the pool's handle; 0: no thread has this record
    TaskQueue tasks;                   // any thread adds tasks, and any worker takes them
    std::atomic<uint64_t> accepted{0}; // tasks put into both queues, since the record was made

    // Read for each task, and seldom written: in another line than the members that are, to avoid false sharing.
    alignas(64) TaskQueue own_tasks; // changed only by the worker's thread, and also under the lock
    Relaxed<Cord*> cord;
    Relaxed<bool> in_loop; // the thread is in a foreign loop, which may be doing anything
    Pool* pool = nullptr;
    CordWork work = {nullptr, this}; // Cord::work points here
    bool begun = false; // the initialiser has returned, so tasks may run. Only the worker's thread changes this
    uint32_t index = 0; // in Pool::members
    Worker* next_vacant = nullptr;

    alignas(64) std::atomic<uint64_t> finished{0}; // tasks that have ended here, since the record was made
    TaskBatch batch;                               // the oldest of `tasks`
    uint64_t cord_id = 0;                          // of a worker that the pool has started
    WorkerMessage message;

    // Only the worker's thread uses the members below.
    Fiber* fetching_fiber = nullptr; // the task fiber that fetches new tasks; null: none does
    bool fetching_fiber_in_task = false;
    bool own_last = false;    // the last task was of own_tasks, if there was any
    bool searches = false;    // counted in Pool::searching
    bool must_search = false; // there were tasks in other workers' queues
    bool starved = false;     // there are tasks, but no fiber or stack to run them
    uint32_t task_fibers = 0; // each has a task that has begun; the fetching one may be about to begin it
    bool own_only = false;    // of a bound thread: it takes only the tasks of own_tasks
    uint32_t random = 0;
    uint32_t times_begun = 0;
    uint32_t leaver_count = 0;    // fibers in worker_leave: those in `leavers`, and those that have been woken
    LeaveWait* leavers = nullptr; // they wait for the end of all task fibers, or of the pool

    Worker() = default;

    // The number of tasks that any worker may take. A guess without the lock. With it, the count can only fall, because
    // the worker itself pops from its batch without the lock.
    uint32_t task_count() const { return tasks.count() + batch.count(); }
};

// Puts a task into a worker's queue, from any thread, and with `call` sends it the message. 0; -ESRCH: it takes no
// tasks for this pool; -EBUSY: with `call`, the worker is not idle any more, or has been called already; -EPIPE,
// -ENOMEM.
struct Put {
    uint64_t pool_id;
    bool by_task;   // a running task of the pool puts it, which it may until all have ended
    bool by_worker; // the worker itself
    bool same_thread;
};
int worker_put(Worker& worker, const Task& task, const Put& how, bool call);

// Grows a queue of the worker to at least so many tasks. False: no memory.
bool worker_make_room(Worker& worker, TaskQueue& queue, uint32_t capacity);

// Gives back the memory that the worker's queues have grown to. They are empty.
void worker_shrink(Worker& worker);

// Sends a worker the message that wakes it. search: the worker must be idle, and the caller has counted it in
// Pool::searching. False: it does not serve that pool, or is not idle.
bool worker_call(Worker& worker, uint64_t pool_id, bool search);

// Wakes a worker: it looks for tasks, and if it finds none, sets its idle bit again.
void worker_wake(Worker& worker);

// Attaches the worker to the cord, whose thread is about to run the initialiser. No task runs yet.
void worker_prepare(Cord& cord, Worker& worker);

// Lets the cord's thread take tasks from now on. Called by the thread itself: after the initialiser, or for pool_bind.
void worker_begin(Cord& cord, Worker& worker);

// The worker that the cord is, or will be; null: the cord works for no pool.
inline Worker* worker_of(const Cord& cord) { return cord.work ? static_cast<Worker*>(cord.work->owner) : nullptr; }
inline bool worker_has_begun(const Cord& cord) { return cord.work && worker_of(cord)->begun; }

// Ends the work of the calling thread: takes no more tasks from other threads, and waits until it has no tasks left,
// begun or not. 0; another result: the wait ended early, and the thread still works for the pool.
int worker_leave(Cord& cord, bool stoppable);

// Waits until the worker is called because the pool is over, or until another fiber's worker_leave is woken.
void worker_wait(Cord& cord);

// Drops the tasks of a record that no thread has: no thread would ever take them.
void worker_drop_tasks(Cord& cord, Worker& worker);

} // namespace fiberrt
