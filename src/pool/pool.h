// SPDX-License-Identifier: MIT OR Apache-2.0
// A pool: cords that run submitted tasks. The public calls (api/pool.cc) and spawn_task.cc use it. A task is a function
// that has not begun: it has no stack and no handle, and any worker may take it. Once begun, it is a fiber of that
// worker's cord and stays there.
//
//   Pool ── members ──▶ Worker ◀── cord.work ──── Cord: one that the pool has started, or an outside thread's (bound)
//                         tasks       queue of tasks that have not begun; other workers may steal them
//                         batch       tasks moved here from `tasks`, which run next; other workers may steal these, too
//                         own_tasks   queue of tasks that only this thread may run
//                         fetching_fiber   the fiber of the worker's cord that fetches tasks and runs them in order
//
// worker.h says how a worker works. pool.cc makes pools and their members, submit.cc chooses the queue for a task, and
// close.cc ends a pool.
//
// A pool has ended when it is closing and as many tasks have finished as were accepted. Once it is closing, only
// running tasks may submit. Each worker counts the tasks put into its queues (under its lock), and the tasks that
// finished on it. The thread that adds up these counters reads all `finished` before any `accepted`. If the sums are
// equal, every task accepted by then had finished, so no running task was left that could submit another.
//
// Tests of the end: the simulation explores all orders of 3 tasks on 2 threads that differ from the ordinary order in
// up to 2 choices (in the soak, 3), and seeds with more tasks, more threads and refusals. It cannot stop a thread that
// holds a lock, which tests/models/pool.pml does. Neither has the hardware's memory order.
#pragma once

#include "core/cord.h"
#include "core/shared_wait.h"
#include "core/slots.h"
#include "fiberrt.h"
#include "pool/worker.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

struct Pool {
    static constexpr uint32_t most = 1024; // members at one time
    static constexpr uint32_t words = most / 64;

    std::atomic<uint32_t> generation;
    uint32_t index;
    Pool* next_free;

    // Read by each submitter and by each worker that looks for tasks.
    std::atomic<bool> closing;      // only running tasks may submit
    std::atomic<uint32_t> may_end;  // 1: every other thread has seen `closing`, so the counters may be added up
    std::atomic<uint32_t> over;     // 1: all tasks have ended
    std::atomic<bool> abandoned;    // pool_create has failed: the last worker to leave gives the slot back
    std::atomic<uint32_t> places;   // how many of `members` have a record; a later pool of the slot uses them again
    Relaxed<uint32_t> worker_count; // the records of the pool's own workers come first
    uint8_t stack_class;            // of tasks
    int64_t spin_ns; // how long an idle worker spins for tasks before it sleeps, at most; negative: as any cord
    void (*init)(void* arg, int worker); // each worker calls it first; null: none
    void* init_arg;
    // The most tasks that may have begun and not ended on one member; 0: any number. A member at its limit makes no
    // task fiber. It counts as busy, not idle: no thread wakes it, and others steal its tasks. When a task ends there,
    // that task's fiber takes the next. So the limit adds no step to the protocol. (A bound thread with own_only is
    // never idle, either.)
    uint32_t task_limit;
    bool bound_help; // bound threads also take tasks that the workers may take

    alignas(64) std::atomic<uint32_t> searching; // workers that search, or that were called to search
    Relaxed<uint32_t> last_spinner;              // the place of the worker that most recently began to spin
    std::atomic<uint32_t> idlers;                // about how many bits are set in `idle`
    std::atomic<uint64_t> idle[words];           // a bit per member: it has nothing to do, and may be called

    alignas(64) Relaxed<uint32_t> round; // a hint: the worker that the next submit from outside tries first

    alignas(64) SpinLock lock;  // protects the members below
    uint32_t member_count;      // workers and bound threads
    Worker* vacant;             // records that no thread has
    bool being_closed;          // a caller is in pool_close
    bool lost;                  // tasks were accepted that no thread can run any more
    ShortList<EndWait> waiters; // for the end of all tasks, or for the last member to leave
    uint32_t joined;            // how many of the workers' cords have been joined
    std::atomic<Worker*> members[most];

    Pool() = default;

    Worker* member(uint32_t i) const { return members[i].load(std::memory_order_acquire); }
};

using PoolTable = SlotTable<Pool, Tag::pool, 10, 1>;
extern PoolTable pools;

struct PoolStart {
    uint32_t workers;
    uint8_t stack_class;
    int64_t spin_ns;
    void (*init)(void*, int);
    void* init_arg;
    uint32_t task_limit;
    bool bound_help;
    char name[cord_name_max];
    const cpu_set_t* affinity; // null: as the calling thread's
    bool one_of;               // each worker is bound to one of these processors, in turn; else to all of them
};

// Makes a pool and starts its workers. 0, -ENOMEM, -EAGAIN, -EINVAL, -ENOTSUP.
int pool_create(const PoolStart& start, uint64_t* id);

// Submits a task, from any thread. 0; -ESRCH, -EINVAL; -EPIPE: the pool is closed; -ENXIO: no thread works for it;
// -EPERM: same_thread, and the calling thread does not work for the pool; -ENOMEM, -ENOTSUP.
int pool_submit(uint64_t id, const Task& task, bool same_thread);

// Makes the calling thread a member of the pool (bound), and ends that.
int pool_bind(Cord& cord, uint64_t id);
int pool_unbind(Cord& cord, uint64_t id);

// Closes the pool, and waits until all tasks have ended and all members have left. 0; -EOWNERDEAD: some tasks never
// ran; another error: the pool has not ended, and the caller may call again.
int pool_close(Cord& cord, uint64_t id);

// Counts the pool's threads and tasks, while they change. 0, -ESRCH, -EINVAL.
int pool_stats(uint64_t id, fiber_pool_stats_t* out);

// For fork: between lock and unlock, no thread makes a pool or gives one back. pools_forked leaves the child without
// pools.
void pools_lock();
void pools_unlock();
void pools_forked();

inline bool is(const Pool& pool, uint64_t id) { return PoolTable::id_of(&pool) == id; }

// How many records at the beginning of `members` are for the pool's own workers. If another pool has the slot by now,
// the count may be less than that pool's.
uint32_t own_places(const Pool& pool);

// Whether the calling fiber is a task of the pool.
inline bool is_task_of(const Cord* cord, const Pool& pool) {
    return cord && cord->work && worker_of(*cord)->pool == &pool && cord->sched.current &&
           cord->sched.current->life.kind == Kind::task_fiber;
}

// Gives back the slot of a pool whose use has ended.
void pool_give_back(Pool* pool);

// If all tasks of a closing pool have ended, sets `over`, calls the workers and wakes the waiters. Callers: the closer,
// and each worker on which a task may have been the last.
void pool_look_whether_over(Pool& pool);

// Makes the record of a worker that has left vacant. The last one wakes the closer.
void pool_member_left(Pool& pool, Worker& worker);

} // namespace fiberrt
