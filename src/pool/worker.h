// SPDX-License-Identifier: MIT OR Apache-2.0
// A worker: a thread that works for a pool. Its cord is as any other; where that has nothing to run and would sleep, it
// looks for tasks first.
//
//   the cord's queue is empty ──▶ tasks of its own, or others to steal? ── yes: a runner is made runnable
//                                   └ no: it says that it is idle, looks once more, and sleeps as cords do
//
// A runner is a fiber that takes tasks and runs them on its own stack, one after the other, so that a task costs no
// fiber. One runner of a worker at most takes new tasks, the taker. When its task waits, and nothing else can run,
// another becomes that; the first one ends with its task then. To the task it looks like a fiber of its own: with a
// handle that is stale when it has ended, and nothing left from the one before.
//
// A worker takes many tasks from its queue at once (`batch`), so the worker and submitters seldom want the lock at the
// same time. With a lock for each task, competing for it cost more than the rest of the task's work. No task in a batch
// has begun, and other workers may steal it.
//
// Who submits puts a task into a queue and calls an idle worker, if nobody searches already. Nobody misses a task:
// a worker that says it is idle looks at all queues after that, under their locks. Either it finds the task there, or
// who put it there takes the lock later, and finds the worker idle. One that ceases to search does the same.
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
    SpinLock lock; // of what follows
    bool message_under_way = false;
    bool search_asked = false;         // by the message: whoever sent it has counted us among those who search
    bool idle = false;                 // it has nothing to run, and sleeps or is about to. Changed by its thread alone
    bool leaving = false;              // it takes no tasks from other threads any more
    uint64_t serves = 0;               // the pool's handle; 0: no thread has this record
    TaskQueue tasks;                   // for anybody to take. Changed by any thread
    std::atomic<uint64_t> accepted{0}; // into both queues, since the record was made

    // Read for each task, and seldom written: apart from what is, so that nobody waits for the line.
    alignas(64) TaskQueue own_tasks; // changed by the worker's thread alone. Under the lock, too
    Relaxed<Cord*> cord;
    Relaxed<bool> in_loop; // its thread is left to a foreign loop, whatever that may be doing
    Pool* pool = nullptr;
    CordWork work = {nullptr, this}; // what the cord of its thread has of it
    bool begun = false; // the initialiser has returned, so tasks may run. Changed by the worker's thread alone
    uint32_t index = 0;
    Worker* next_vacant = nullptr;

    alignas(64) std::atomic<uint64_t> finished{0}; // tasks that have ended here, since the record was made
    TaskBatch batch;                               // of `tasks`, the oldest
    uint64_t cord_id = 0;                          // of a worker that the pool has started
    WorkerMessage message;

    // The worker's thread alone:
    Fiber* taker = nullptr;
    bool taker_in_task = false;
    bool own_last = false;    // the last task was of own_tasks, if there was any
    bool searches = false;    // counted in Pool::searching
    bool must_search = false; // something was seen in others' queues
    bool starved = false;     // there are tasks, but no fiber or stack to run them
    uint32_t runners = 0;     // each has a task that has begun, except the taker, which may be about to begin one
    bool own_only = false;    // of a bound thread: it takes the tasks of own_tasks alone
    uint32_t random = 0;
    uint32_t times_begun = 0;
    uint32_t leaver_count = 0;    // fibers in worker_leave: those below, and those that are woken
    LeaveWait* leavers = nullptr; // wait for the runners' end, or for the pool's

    Worker() = default;

    // For anybody to take. Exact for who has the lock, but that the worker may just take some; else a guess.
    uint32_t task_count() const { return tasks.count() + batch.count(); }
};

// Gives a worker a task, from any thread, and calls it if `call`: it was idle. 0; -ESRCH: it takes none for this pool;
// -EBUSY: it was to be called, and is not idle any more, or called already; -EPIPE, -ENOMEM.
struct Put {
    uint64_t pool_id;
    bool by_task;   // a running task of the pool puts it, which it may until all have ended
    bool by_worker; // the worker itself
    bool same_thread;
};
int worker_put(Worker& worker, const Task& task, const Put& how, bool call);

bool worker_make_room(Worker& worker, TaskQueue& queue, uint32_t capacity); // false: no memory

void worker_shrink(Worker& worker); // its queues are empty: gives back what memory they have grown to

// Calls a worker. search: an idle one, which whoever calls it has counted in Pool::searching. False: it does not serve
// that pool, or is not idle.
bool worker_call(Worker& worker, uint64_t pool_id, bool search);

void worker_wake(Worker& worker); // it looks for tasks, and says again that it is idle

// The thread of the cord will begin to work: its initialiser runs first.
void worker_prepare(Cord& cord, Worker& worker);

// The thread of the cord begins to work.
void worker_begin(Cord& cord, Worker& worker);

// The worker that the cord is, or will be; null: the cord works for no pool.
inline Worker* worker_of(const Cord& cord) { return cord.work ? static_cast<Worker*>(cord.work->owner) : nullptr; }
inline bool worker_has_begun(const Cord& cord) { return cord.work && worker_of(cord)->begun; }

// Takes no more tasks of others, and waits until it has no tasks left, begun or not; then it works no more. 0, or why
// the wait ended early: it works on.
int worker_leave(Cord& cord, bool stoppable);

// Waits for worker_call of the pool's end.
void worker_wait(Cord& cord);

// Nobody will ever take the tasks of a record that no thread has: drops them.
void worker_drop_tasks(Cord& cord, Worker& worker);

} // namespace fiberrt
