// SPDX-License-Identifier: MIT OR Apache-2.0
// A pool: cords that work off tasks. A task is a function that has not begun: it has no stack and no handle, and any
// worker may take it. Once begun it is a fiber of that worker's cord and stays there.
//
//   Pool ── members ──▶ Worker ◀── cord.work ──── Cord: one that the pool has started, or an outside thread's (bound)
//                         tasks       not begun; others may steal them,
//                         batch       and these, which it has taken from there at once and runs next
//                         own_tasks   not begun; for this thread alone
//                         taker       the fiber of its cord that takes tasks and runs them, one after the other
//
// How a worker works is in worker.h. Here: how pools come and go, who becomes a worker, where a task is put, and when
// all is done.
//
// Done is: closing, and as many tasks have ended as were accepted. From closing on only running tasks may submit. Each
// worker counts what was put into its queues, under their lock, and what has ended on it. Who adds up reads first what
// has ended, then what was accepted: if these are equal, all that had been accepted by then had ended, so that nobody
// was left to submit more.
//
// Tests of the end: the simulation explores all orders of 3 tasks on 2 threads that differ from the ordinary order in
// up to 2 choices (in the soak, 3), and seeds with more tasks, more threads and refusals. It cannot stop a thread that
// holds a lock, which tests/models/pool.pml does. Neither has the hardware's memory order.
#pragma once

#include "core/cord.h"
#include "core/shared_wait.h"
#include "core/slots.h"
#include "pool/worker.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

struct Pool {
    static constexpr uint32_t most = 1024; // members at a time
    static constexpr uint32_t words = most / 64;

    std::atomic<uint32_t> generation;
    uint32_t index;
    Pool* next_free;

    // What those who submit and those who look for work read.
    std::atomic<bool> closing;      // only running tasks may submit
    std::atomic<uint32_t> may_end;  // 1: and everybody else has seen that: now one may add up
    std::atomic<uint32_t> over;     // 1: and all have ended
    std::atomic<bool> abandoned;    // its making failed: the last worker gives the slot back
    std::atomic<uint32_t> places;   // of `members`, so many have a record. These are never freed: another pool that
    Relaxed<uint32_t> worker_count; // gets the slot uses them again. The first ones are the pool's own workers'
    uint8_t stack_class;            // of tasks
    int64_t spin_ns;                // the most that a worker looks out before it sleeps; less than 0: as any cord
    void (*init)(void* arg, int worker); // null: none
    void* init_arg;
    // The most tasks that may have begun and not ended on one member; 0: any number. A member at its limit makes no
    // taker. It counts as busy, not idle: no thread wakes it, and others steal its tasks. When one of its tasks ends,
    // that task's fiber takes the next. So the limit adds no step to the protocol. (A bound thread with own_only is
    // never idle, either.)
    uint32_t task_limit;
    bool bound_help; // bound threads take tasks that the workers may take, too

    alignas(64) std::atomic<uint32_t> searching; // workers that search, or were called to
    Relaxed<uint32_t> looks_out;                 // the place of the last of these that began to look out for tasks
    std::atomic<uint32_t> idlers;                // about how many bits are set in
    std::atomic<uint64_t> idle[words];           // whose members have nothing to do, and may be called

    alignas(64) Relaxed<uint32_t> round; // at which worker the next search for a place begins; about so

    alignas(64) SpinLock lock;  // of what follows
    uint32_t member_count;      // workers and bound threads
    Worker* vacant;             // records that no thread has
    bool being_closed;          // somebody waits in pool_close
    bool lost;                  // tasks were accepted that nobody can run any more
    ShortList<EndWait> waiters; // for the end of all tasks, or for the last member to leave
    uint32_t joined;            // so many of the workers' cords have been joined
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
    bool one_of;               // each worker is bound to one of these, in turn; else to all of them
};

int pool_create(const PoolStart& start, uint64_t* id); // 0, -ENOMEM, -EAGAIN, -EINVAL, -ENOTSUP

// From any thread. 0; -ESRCH, -EINVAL; -EPIPE: it is closed; -ENXIO: nobody works for it; -EPERM: same_thread, and the
// calling thread does not work for it; -ENOMEM, -ENOTSUP.
int pool_submit(uint64_t id, const Task& task, bool same_thread);

int pool_bind(Cord& cord, uint64_t id);
int pool_unbind(Cord& cord, uint64_t id);

// Waits until all tasks have ended and everybody has left. 0; -EOWNERDEAD: some never ran; or why not.
int pool_close(Cord& cord, uint64_t id);

// Around a fork: nobody makes a pool or gives one back meanwhile; and in the child of one: there is none.
void pools_hold();
void pools_let_go();
void pools_forked();

inline bool is(const Pool& pool, uint64_t id) { return PoolTable::id_of(&pool) == id; }

// So many of the first places are the pool's own workers'. Of another pool, which has the slot by now, perhaps fewer.
uint32_t own_places(const Pool& pool);

// Whether the calling fiber is a task of the pool.
inline bool is_task_of(const Cord* cord, const Pool& pool) {
    return cord && cord->work && worker_of(*cord)->pool == &pool && cord->sched.current &&
           cord->sched.current->life.kind == Kind::task_fiber;
}

void pool_give_back(Pool* pool); // its use has ended

// All has come to an end, perhaps: then tells everybody.
void pool_look_whether_over(Pool& pool);

// A worker has left: its record is another's.
void pool_member_left(Pool& pool, Worker& worker);

} // namespace fiberrt
