// SPDX-License-Identifier: MIT OR Apache-2.0
// Ends a pool: pool_close closes it, and waits until all accepted tasks have ended and all members have left.
#include "pool/pool.h"

#include "base/check.h"
#include "base/keep_errno.h"
#include "base/planted.h"
#include "core/hooks.h"
#include "core/scheduler.h"
#include "pool/search.h"

#include <errno.h>

namespace fiberrt {

namespace {

void complete_waiters(Pool& pool) {
    EndWait* ended;
    {
        Locked locked(pool.lock);
        ended = end_waits_take(pool.waiters, [](EndWait*) { return true; });
    }
    end_waits_complete(ended, nullptr, 0);
}

// Waits until done(), which it calls under the pool's lock. 0, or why the wait ended early. A wakeup means only that
// something may have changed.
template <class Done>
int wait_until(Cord& cord, Pool& pool, Done done) {
    for (;;) {
        EndWait wait;
        end_wait_prepare(cord, wait, pool.lock, pool.waiters);
        wait.what = WaitFor::pool;
        {
            Locked locked(pool.lock);
            if (done()) {
                shared_wait_drop(cord);
                return 0;
            }
            pool.waiters.push_back(&wait);
        }
        if (int error = int(park(cord, wait))) return error;
    }
}

// Whether as many tasks have ended as were accepted. The order of the two sums matters: see pool.h.
bool all_ended(const Pool& pool) {
    uint64_t finished = 0;
    uint64_t accepted = 0;
    uint32_t places = pool.places.load(std::memory_order_acquire);
    if (PLANTED(two_sums_in_the_wrong_order)) {
        for (uint32_t i = 0; i < places; i++) accepted += pool.member(i)->accepted;
        in_between();
        for (uint32_t i = 0; i < places; i++) finished += pool.member(i)->finished;
        return finished == accepted;
    }
    // Acquire: the tasks that a finished task has submitted are counted below.
    for (uint32_t i = 0; i < places; i++) finished += pool.member(i)->finished.load(std::memory_order_acquire);
    in_between();
    for (uint32_t i = 0; i < places; i++) accepted += pool.member(i)->accepted.load(std::memory_order_acquire);
    return finished == accepted;
}

// Lets only running tasks submit from now on. It takes each worker's lock once, so a thread that has not seen `closing`
// has put its task into a queue by then.
void begin_to_close(Pool& pool) {
    {
        Locked locked(pool.lock); // no member comes later
        pool.closing.store(true, std::memory_order_seq_cst);
    }
    uint32_t places = pool.places.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < places; i++) {
        Locked locked(pool.member(i)->lock);
    }
    pool.may_end.fetch_or(1, std::memory_order_acq_rel);
}

// If no thread works for the closing pool, drops the tasks that are left: no thread will take them.
void drop_tasks_of_nobody(Cord& cord, Pool& pool) {
    {
        Locked locked(pool.lock);
        if (pool.member_count || !pool.closing.load(std::memory_order_relaxed)) return;
        if (!all_ended(pool)) pool.lost = true;
    }
    for (uint32_t i = 0; i < pool.places.load(std::memory_order_acquire); i++) {
        worker_drop_tasks(cord, *pool.member(i));
    }
}

int await_end(Cord& cord, Pool& pool) {
    drop_tasks_of_nobody(cord, pool);
    pool_look_whether_over(pool);
    // The last member to leave may leave tasks.
    auto over = [&] { return pool.over.load(std::memory_order_relaxed) || !pool.member_count; };
    while (!pool.over.load(std::memory_order_acquire)) {
        if (int error = wait_until(cord, pool, over)) return error;
        drop_tasks_of_nobody(cord, pool);
        pool_look_whether_over(pool);
    }
    if (worker_has_begun(cord) && worker_of(cord)->pool == &pool) {
        if (int error = worker_leave(cord, true)) return error;
    }
    if (int error = wait_until(cord, pool, [&] { return !pool.member_count; })) return error;
    for (; pool.joined < pool.worker_count; pool.joined++) {
        uint64_t id = pool.member(pool.joined)->cord_id;
        Cord* other;
        if (cords.resolve(id, &other) < 0) continue;
        int error = cord_join(cord, other, id_generation(id), nullptr, never);
        if (error && error != -ESRCH) return error;
    }
    return 0;
}

} // namespace

int pool_close(Cord& cord, uint64_t id) {
    Pool* pool;
    if (int error = pools.resolve(id, &pool)) return error;
    const Worker* own = worker_of(cord);
    if (own && own->pool == pool) {
        if (is_task_of(&cord, *pool) || own->index < pool->worker_count) return -EDEADLK;
        if (own->leaving) return -EBUSY;
    }
    {
        Locked locked(pool->lock);
        if (!is(*pool, id)) return -ESRCH;
        if (pool->being_closed) return -EBUSY;
        pool->being_closed = true;
    }
    begin_to_close(*pool);
    int error = await_end(cord, *pool);
    bool lost;
    {
        Locked locked(pool->lock);
        pool->being_closed = false;
        lost = pool->lost;
        if (!error) PoolTable::end_use(pool);
    }
    if (error) return error;
    hooks::tsan_acquire(pool); // ThreadSanitizer: the caller sees the writes of the tasks
    KeepErrno keep;
    for (uint32_t i = 0; i < pool->places.load(std::memory_order_acquire); i++) worker_shrink(*pool->member(i));
    pool_give_back(pool);
    return lost ? -EOWNERDEAD : 0;
}

void pool_look_whether_over(Pool& pool) {
    if (pool.over.load(std::memory_order_relaxed)) return;
    // A write, for the order: if it comes before the closer's write, the closer sees the tasks that have ended here,
    // and adds up itself.
    if (!pool.may_end.fetch_or(0, std::memory_order_acq_rel)) return;
    if (!all_ended(pool)) return;
    if (pool.over.exchange(1, std::memory_order_acq_rel)) return;
    in_between();
    FIBERRT_CHECK(all_ended(pool)); // it stays so: no task is left that may submit
    uint64_t id = PoolTable::id_of(&pool);
    uint32_t count = own_places(pool);
    for (uint32_t i = 0; i < count; i++) worker_call(*pool.member(i), id, false);
    complete_waiters(pool);
}

} // namespace fiberrt
