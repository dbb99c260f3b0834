// SPDX-License-Identifier: MIT OR Apache-2.0
// pool_submit: chooses the queue that a task is put into, and the worker that is called for it.
#include "pool/pool.h"

#include "base/planted.h"
#include "pool/search.h"

#include <errno.h>

namespace fiberrt {

namespace {

// Whether the pool accepts no task from this submitter; true also if another pool has the slot by now. The order of the
// two loads, and acquire, matter: if `closing` is that of another pool, which has begun, is() sees the new generation.
bool is_closed(const Pool& pool, const Put& how) {
    bool closing = pool.closing.load(std::memory_order_acquire);
    return !is(pool, how.pool_id) || (closing && !how.by_task);
}

bool any_searching(const Pool& pool) { return pool.searching.load(std::memory_order_relaxed); }

// The worker that gets the task: the workers in turn. But a worker that spins for tasks comes first, because it finds a
// task in its own queue at once, and others would have to steal it.
uint32_t first_place(Pool& pool, uint32_t count) {
    if (any_searching(pool)) return pool.last_spinner;
    uint32_t at = pool.round;
    if (count > 1) pool.round = at + 1 < count ? at + 1 : 0; // two submitters at one time may get the same place
    return at;
}

// Puts the task into the queue of some worker that takes tasks: of one of the pool's own, or if it has none, of a bound
// thread.
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
    in_between();                                           // the pool may be closed here
    return any_searching(pool) ? nullptr : take_idle(pool); // a searching worker finds the task without a message
}

int submit_from_outside(Pool& pool, const Task& task, const Put& how) {
    while (Worker* idle = take_idle_for(pool, how)) {
        int error = worker_put(*idle, task, how, true);
        if (!PLANTED(a_bit_that_no_thread_gives_back) && error) worker_wake(*idle);
        // Its foreign loop may keep it busy for long, and another worker may have become idle just before the task
        // came.
        if (!error && idle->in_loop) call_searcher(pool);
        if (error != -ESRCH && error != -EBUSY) return error;
    }
    in_between(); // a worker may become idle here
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
        if (cord != this_cord) cord_resume(*cord); // so that the foreign loop runs the cord
        return worker_put(*own, task, how, false);
    }
    if (own && own->own_only) how.by_worker = false; // another worker takes it
    if (!how.by_worker) return submit_from_outside(*pool, task, how);
    int error = worker_put(*own, task, how, false);
    if (error) return error;
    in_between();
    call_searcher(*pool);
    return 0;
}

} // namespace fiberrt
