// SPDX-License-Identifier: MIT OR Apache-2.0
// Where a task is put that is submitted, and which worker is called for it.
#include "pool/pool.h"

#include "base/planted.h"
#include "pool/search.h"

#include <errno.h>

namespace fiberrt {

namespace {

// For whoever submits so; also if it is another pool by now. Acquire, and in this order: if what is read is another
// pool's, which has begun, that is seen.
bool is_closed(const Pool& pool, const Put& how) {
    bool closing = pool.closing.load(std::memory_order_acquire);
    return !is(pool, how.pool_id) || (closing && !how.by_task);
}

bool somebody_searches(const Pool& pool) { return pool.searching.load(std::memory_order_relaxed); }

// Whose turn it is; but who looks out for tasks comes first, as it finds there at once what others would have to steal.
uint32_t first_place(Pool& pool, uint32_t count) {
    if (somebody_searches(pool)) return pool.looks_out;
    uint32_t at = pool.round;
    if (count > 1) pool.round = at + 1 < count ? at + 1 : 0; // of two at a time both may begin at the same
    return at;
}

// To anybody who takes tasks: the pool's own workers; where it has none, who is bound.
int put_somewhere(Pool& pool, const Task& task, const Put& how) {
    uint32_t count = own_places(pool);
    if (!count) count = pool.places.load(std::memory_order_acquire);
    uint32_t at = first_place(pool, count);
    for (uint32_t i = 0; i < count; i++, at++) {
        if (at >= count) at = 0;
        int error = worker_put(*pool.member(at), task, how, false);
        if (error != -ESRCH) return error;
    }
    if (!is(pool, how.pool_id)) return -ESRCH;
    return is_closed(pool, how) ? -EPIPE : -ENXIO;
}

Worker* take_idle_for(Pool& pool, const Put& how) {
    if (is_closed(pool, how)) return nullptr;
    in_between();                                               // now it may be
    return somebody_searches(pool) ? nullptr : take_idle(pool); // who searches finds it, and has to be told nothing
}

int submit_from_outside(Pool& pool, const Task& task, const Put& how) {
    while (Worker* idle = take_idle_for(pool, how)) {
        int error = worker_put(*idle, task, how, true);
        if (!PLANTED(a_bit_that_nobody_gives_back) && error) worker_wake(*idle);
        // It may be kept by its loop for long; and another have become idle just before there was the task to see.
        if (!error && idle->in_loop) call_searcher(pool);
        if (error != -ESRCH && error != -EBUSY) return error;
    }
    in_between(); // now somebody may be
    int error = put_somewhere(pool, task, how);
    in_between();
    if (!error) call_searcher(pool);
    return error;
}

} // namespace

int pool_submit(uint64_t id, const Task& task, bool same_thread) {
    Pool* pool;
    if (int error = pools.resolve(id, &pool)) return error;
    Cord* cord = same_thread ? cord_if_any() : this_cord;
    Worker* own = cord && worker_has_begun(*cord) && worker_of(*cord)->pool == pool ? worker_of(*cord) : nullptr;
    Put how = {id, is_task_of(cord, *pool), own != nullptr, same_thread};
    if (same_thread) {
        if (!own) return -EPERM;
        if (cord != this_cord) cord_resume(*cord); // so that its loop has it run
        return worker_put(*own, task, how, false);
    }
    if (own && own->own_only) how.by_worker = false; // another one takes it
    if (!how.by_worker) return submit_from_outside(*pool, task, how);
    int error = worker_put(*own, task, how, false);
    if (error) return error;
    in_between();
    call_searcher(*pool);
    return 0;
}

} // namespace fiberrt
