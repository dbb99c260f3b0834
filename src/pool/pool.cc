// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes pools, starts their workers, binds and unbinds other threads, and empties the pools in a fork's child.
#include "pool/pool.h"

#include "base/aligned.h"
#include "base/check.h"
#include "base/keep_errno.h"
#include "core/begin.h"
#include "core/handles.h"
#include "core/hooks.h"
#include "core/scheduler.h"
#include "pool/search.h"

#include <bit>
#include <errno.h>
#include <new>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt {

constinit PoolTable pools;

namespace {

constinit pthread_mutex_t free_pools_mutex = PTHREAD_MUTEX_INITIALIZER;
constinit FreeSlots<Pool> free_pools;

// ---- Members

// Makes a record that no thread has yet. Null: no memory.
Worker* make_record(Pool& pool) { // coverage: no memory
    KeepErrno keep;
    void* memory = aligned_allocate(alignof(Worker), sizeof(Worker));
    if (!memory) return nullptr;
    auto* worker = new (memory) Worker;
    worker->pool = &pool;
    if (worker_make_room(*worker, worker->tasks, TaskQueue::first_room)) return worker;
    free(memory);
    return nullptr;
}

// Frees a record that is not in `members`.
void free_record(Worker* worker) {
    KeepErrno keep;
    worker->tasks.release();
    free(worker);
}

// Adds a record to `members`. Under the pool's lock. False: there are too many.
bool add_record(Pool& pool, Worker* worker) {
    uint32_t places = pool.places.load(std::memory_order_relaxed);
    if (places == Pool::most) return false;
    worker->index = places;
    pool.members[places].store(worker, std::memory_order_relaxed);
    pool.places.store(places + 1, std::memory_order_release);
    return true;
}

// Takes a vacant record; null: there is none. Under the pool's lock.
Worker* take_vacant(Pool& pool) {
    for (Worker** at = &pool.vacant; *at; at = &(*at)->next_vacant) {
        Worker* worker = *at;
        Locked locked(worker->lock);
        if (worker->message_under_way) continue; // to the thread that had it
        *at = worker->next_vacant;
        return worker;
    }
    return nullptr;
}

void serve(Worker& worker, uint64_t id) {
    Locked locked(worker.lock);
    worker.serves = id;
    worker.leaving = false;
    worker.own_only = false;
    worker.cord = nullptr;
}

// Takes a record for one more member: a vacant one, else `made`, which it then sets to null. Under the pool's lock.
int take_record(Pool& pool, uint64_t id, Worker** made, Worker** out) {
    if (!is(pool, id)) return -ESRCH;
    if (pool.closing.load(std::memory_order_relaxed)) return -EPIPE;
    *out = take_vacant(pool);
    if (!*out && *made) {
        if (!add_record(pool, *made)) return -EAGAIN;
        *out = *made;
        *made = nullptr;
    }
    pool.member_count += *out != nullptr;
    return 0;
}

// Takes or makes a record for a thread that will serve the pool. 0, -ENOMEM, -EAGAIN, -ESRCH, -EPIPE.
int become_member(Pool& pool, uint64_t id, Worker** out) {
    Worker* made = nullptr;
    for (;;) {
        int error;
        {
            Locked locked(pool.lock);
            error = take_record(pool, id, &made, out);
        }
        if (error || *out) {
            if (made) free_record(made); // not needed after all
            return error;
        }
        made = make_record(pool);
        if (!made) return -ENOMEM;
    }
}

// ---- The pool's own workers

void* pool_thread(void* argument) {
    Worker& worker = *static_cast<Worker*>(argument);
    Cord& cord = *this_cord;
    Pool& pool = *worker.pool;
    if (pool.spin_ns >= 0) cord.sleep.spin_most_ns = pool.spin_ns;
    worker_prepare(cord, worker);
    if (pool.init) pool.init(pool.init_arg, int(worker.index));
    cord_resume(cord); // its thread may be a foreign loop's
    // If the initialiser has forked and this is the child, there is no pool: the record is gone, or another pool's.
    if (cord.work != &worker.work || worker_has_begun(cord)) return nullptr;
    executor_leave(cord);
    cord.no_switch.depth = 0; // a section that the initialiser left open ends with it
    worker_begin(cord, worker);
    while (!pool.over.load(std::memory_order_acquire)) worker_wait(cord);
    worker_leave(cord, false);
    return nullptr;
}

// Names a worker: the pool's name, shortened, and the worker's number.
void name_worker(CordStart& cord, const char* name, uint32_t index) {
    char digits[12];
    int at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = char('0' + index % 10);
    } while (index /= 10);
    size_t room = cord_name_max - 1 - strlen(digits + at);
    size_t length = strnlen(name, room);
    if (!length) return;
    memcpy(cord.name, name, length);
    memcpy(cord.name + length, digits + at, strlen(digits + at) + 1);
}

void only_one_of(cpu_set_t* set, uint32_t index) {
    uint32_t count = uint32_t(CPU_COUNT(set));
    uint32_t left = index % count;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(size_t(cpu), set) && left-- != 0) CPU_CLR(size_t(cpu), set);
    }
    // `left` wraps after the chosen processor, so the processors after that are cleared as well
}

int start_worker(const PoolStart& start, Worker& worker) {
    CordStart cord = {pool_thread, &worker, {}, nullptr, 0};
    cpu_set_t set;
    if (start.affinity) {
        set = *start.affinity;
        if (start.one_of) only_one_of(&set, worker.index);
        cord.affinity = &set;
        cord.affinity_size = sizeof set;
    }
    name_worker(cord, start.name, worker.index);
    return cord_start(cord, &worker.cord_id);
}

void release_cord(Worker& worker) {
    Cord* cord;
    if (cords.resolve(worker.cord_id, &cord) == 0) cord_detach(cord, id_generation(worker.cord_id));
}

// Undoes a start that failed: the workers that were started end, and the last one gives the slot back.
void give_up(Pool& pool, uint32_t started, uint32_t wanted) {
    for (uint32_t i = 0; i < started; i++) release_cord(*pool.member(i));
    pool.closing.store(true, std::memory_order_relaxed);
    pool.abandoned.store(true, std::memory_order_relaxed);
    pool.over.store(1, std::memory_order_release);
    uint64_t id = PoolTable::id_of(&pool);
    for (uint32_t i = 0; i < started; i++) worker_call(*pool.member(i), id, false);
    for (uint32_t i = started; i < wanted; i++) {
        Worker& worker = *pool.member(i);
        {
            Locked locked(worker.lock);
            worker.serves = 0;
        }
        pool_member_left(pool, worker);
    }
}

// Makes the records that are missing for so many workers. False: no memory.
bool make_places(Pool& pool, uint32_t workers) {
    while (pool.places.load(std::memory_order_relaxed) < workers) {
        Worker* worker = make_record(pool);
        if (!worker) return false;
        Locked locked(pool.lock);
        add_record(pool, worker);
    }
    return true;
}

// Sets a slot's members as for a new pool; an earlier pool may have used the slot.
void begin(Pool& pool, const PoolStart& start, uint64_t id) {
    pool.stack_class = start.stack_class;
    pool.spin_ns = start.spin_ns;
    pool.init = start.init;
    pool.init_arg = start.init_arg;
    pool.task_limit = start.task_limit;
    pool.bound_help = start.bound_help;
    pool.worker_count = start.workers;
    pool.joined = 0;
    pool.over.store(0, std::memory_order_relaxed);
    pool.may_end.store(0, std::memory_order_relaxed);
    pool.abandoned.store(false, std::memory_order_relaxed);
    pool.closing.store(false, std::memory_order_release);
    for (uint32_t i = 0; i < start.workers; i++) serve(*pool.member(i), id);
    Locked locked(pool.lock); // a thread may be looking at it with an old handle
    pool.member_count = start.workers;
    pool.being_closed = pool.lost = false;
    pool.vacant = nullptr;
    for (uint32_t i = pool.places.load(std::memory_order_relaxed); i-- > start.workers;) {
        pool.member(i)->next_vacant = pool.vacant;
        pool.vacant = pool.member(i);
    }
}

} // namespace

uint32_t own_places(const Pool& pool) {
    uint32_t count = pool.worker_count;
    uint32_t places = pool.places.load(std::memory_order_acquire);
    return count < places ? count : places;
}

void pool_give_back(Pool* pool) {
    pthread_mutex_lock(&free_pools_mutex);
    pools.give_back(free_pools, pool);
    pthread_mutex_unlock(&free_pools_mutex);
}

int pool_create(const PoolStart& start, uint64_t* id) {
    KeepErrno keep;
    if (int error = environment_begin()) return error;
    if (fork_refused) return -EPERM;
    Pool* pool;
    pthread_mutex_lock(&free_pools_mutex);
    int error = pools.take(free_pools, &pool);
    pthread_mutex_unlock(&free_pools_mutex);
    if (error) return error;
    if (!make_places(*pool, start.workers)) { // coverage: no memory
        PoolTable::end_use(pool);
        pool_give_back(pool);
        return -ENOMEM;
    }
    uint64_t made = PoolTable::id_of(pool);
    begin(*pool, start, made);
    for (uint32_t i = 0; i < start.workers; i++) {
        error = start_worker(start, *pool->member(i));
        if (!error) continue;
        give_up(*pool, i, start.workers);
        return error;
    }
    *id = made;
    return 0;
}

int pool_bind(Cord& cord, uint64_t id) {
    Pool* pool;
    if (int error = pools.resolve(id, &pool)) return error;
    if (cord.work) return -EBUSY;
    if (cord.closing || cord.main_flow.done) return -EPIPE;
    Worker* worker;
    if (int error = become_member(*pool, id, &worker)) return error;
    serve(*worker, id);
    worker->own_only = !pool->bound_help && pool->worker_count;
    worker_begin(cord, *worker);
    return 0;
}

int pool_unbind(Cord& cord, uint64_t id) {
    Pool* pool;
    if (int error = pools.resolve(id, &pool)) return error;
    const Worker* own = worker_has_begun(cord) ? worker_of(cord) : nullptr;
    if (!own || own->pool != pool || own->index < pool->worker_count) return -EPERM;
    if (is_task_of(&cord, *pool)) return -EDEADLK;
    if (own->leaving) return -EBUSY;
    return worker_leave(cord, true);
}

void pools_lock() {
    pthread_mutex_lock(&free_pools_mutex);
    pools.lock();
}

void pools_unlock() {
    pools.unlock();
    pthread_mutex_unlock(&free_pools_mutex);
}

// Frees the members' records, because threads that do not exist in the child may have been changing them.
void pools_forked() {
    free_pools = {};
    pools.reclaim([](Pool* pool) {
        for (auto& place : pool->members) {
            Worker* worker = place.exchange(nullptr, std::memory_order_relaxed);
            if (!worker) continue;
            worker->own_tasks.release();
            free_record(worker);
        }
        for (auto& word : pool->idle) word.store(0, std::memory_order_relaxed);
        pool->places.store(0, std::memory_order_relaxed);
        pool->searching.store(0, std::memory_order_relaxed);
        pool->idlers.store(0, std::memory_order_relaxed);
        pool->lock.reset();
        pool->member_count = 0;
        pool->vacant = nullptr;
        pool->waiters = {};
        return false;
    });
}

void pool_member_left(Pool& pool, Worker& worker) {
    EndWait* ended = nullptr;
    bool last;
    {
        Locked locked(pool.lock);
        worker.next_vacant = pool.vacant;
        pool.vacant = &worker;
        last = --pool.member_count == 0;
        if (last) ended = end_waits_take(pool.waiters, [](EndWait*) { return true; });
        last = last && pool.abandoned.load(std::memory_order_relaxed);
        if (last) PoolTable::end_use(&pool);
    }
    end_waits_complete(ended, nullptr, 0);
    if (last) pool_give_back(&pool);
}

int pool_stats(uint64_t id, fiber_pool_stats_t* out) {
    Pool* pool;
    if (int error = pools.resolve(id, &pool)) return error;
    *out = {};
    {
        Locked locked(pool->lock);
        out->threads = pool->member_count;
    }
    out->workers = pool->worker_count;
    for (const auto& word : pool->idle) out->idle += uint64_t(std::popcount(word.load(std::memory_order_relaxed)));
    // In this order, as in close.cc: a task that is counted as ended was counted as accepted, too.
    uint64_t ended = 0;
    uint64_t accepted = 0;
    uint32_t places = pool->places.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < places; i++) ended += pool->member(i)->finished.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < places; i++) {
        const Worker& worker = *pool->member(i);
        out->tasks_waiting += worker.task_count() + worker.own_tasks.count();
        accepted += worker.accepted.load(std::memory_order_acquire);
    }
    uint64_t left = accepted - ended;
    out->tasks_begun = left > out->tasks_waiting ? left - out->tasks_waiting : 0;
    out->closing = pool->closing.load(std::memory_order_relaxed);
    return is_in_the_same_use(*pool, id_generation(id)) ? 0 : -ESRCH;
}

} // namespace fiberrt
