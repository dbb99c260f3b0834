// SPDX-License-Identifier: MIT OR Apache-2.0
// Tracks which workers are idle and which search, and moves tasks from one worker to another.
#include "pool/search.h"

#include "core/environment.h"
#include "core/scheduler.h"
#include "pool/pool.h"

#include <initializer_list>

namespace fiberrt {

namespace {

constexpr uint32_t stolen_most = 32; // at a time

uint32_t random_below(Worker& worker, uint32_t n) {
    if (environment) return environment->pick_below(n);
    uint32_t x = worker.random ? worker.random : worker.index + 1; // xorshift: not 0
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    worker.random = x;
    return uint32_t(uint64_t(x) * n >> 32);
}

std::atomic<uint64_t>& word_of(const Worker& worker) { return worker.pool->idle[worker.index / 64]; }
uint64_t bit_of(const Worker& worker) { return uint64_t(1) << worker.index % 64; }

bool any_idle(const Pool& pool) {
    uint32_t places = pool.places.load(std::memory_order_acquire);
    for (uint32_t w = 0; w * 64 < places; w++) {
        if (pool.idle[w].load(std::memory_order_relaxed)) return true;
    }
    return false;
}

// How soon a call reaches the worker; a guess.
enum class Distance : uint8_t { awake, asleep, in_loop };

Distance distance(const Worker& worker) {
    if (worker.in_loop) return Distance::in_loop;
    const Cord* cord = worker.cord;
    return cord && !cord->inbox.is_asleep() ? Distance::awake : Distance::asleep;
}

// Moves half of the tasks of `from` to `to`. False: there are none, or no memory.
bool steal(Worker& from, Worker& to) {
    if (!from.task_count()) return false; // a guess; a worker looks under the lock before it sleeps
    if (!to.tasks.room() && !worker_make_room(to, to.tasks, 2 * to.tasks.capacity())) return false;
    Locked first((&from < &to ? from : to).lock);
    Locked second((&from < &to ? to : from).lock);
    uint32_t n = (from.task_count() + 1) / 2;
    if (n > stolen_most) n = stolen_most;
    if (n > to.tasks.room()) n = to.tasks.room();
    uint32_t moved = 0;
    for (Task task; moved < n && pop_task(from, &task); moved++) to.tasks.push(task);
    return moved;
}

bool steal_from_any(Worker& to) {
    const Pool& pool = *to.pool;
    uint32_t places = pool.places.load(std::memory_order_acquire);
    uint32_t others = places - 1;
    if (!others) return false;
    uint32_t first = random_below(to, others);
    for (uint32_t i = 0; i < others; i++) {
        uint32_t victim = (to.index + 1 + (first + i) % others) % places;
        if (steal(*pool.member(victim), to)) return true;
    }
    return false;
}

// Whether a worker has tasks; a guess, for the spin.
bool any_tasks(void* argument) {
    const Pool& pool = *static_cast<const Pool*>(argument);
    uint32_t places = pool.places.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < places; i++) {
        if (pool.member(i)->task_count()) return true;
    }
    return false;
}

// Spins until there are tasks, as cords spin for messages. True: there may be some. A worker that spins is counted in
// Pool::searching, so a submitter sends no message. Before workers spun, the message to an idle worker for each task
// cost both sides more than twice as much as the task.
bool spin_for_tasks(Worker& worker) {
    Cord& cord = *this_cord;
    if (!cord.sched.queue.empty() || cord.loop.fd >= 0) return false; // a foreign loop may have more to do
    worker.pool->last_spinner = worker.index;
    return spin_before_sleep(cord, idle_until(cord), any_tasks, worker.pool);
}

} // namespace

bool clear_idle_bit(const Worker& worker) {
    if (!(word_of(worker).fetch_and(~bit_of(worker), std::memory_order_acq_rel) & bit_of(worker))) return false;
    in_between();
    worker.pool->idlers.fetch_sub(1, std::memory_order_relaxed);
    return true;
}

void become_idle(Worker& worker) {
    {
        Locked locked(worker.lock);
        worker.idle = true;
    }
    if (word_of(worker).load(std::memory_order_relaxed) & bit_of(worker)) return;
    // A submitter sees the bit by the queues' locks, which this thread takes next; see worker.h. Release: a thread in
    // end_search sees it, too, or this thread sees that thread's decrement.
    worker.pool->idlers.fetch_add(1, std::memory_order_acq_rel);
    in_between();
    word_of(worker).fetch_or(bit_of(worker), std::memory_order_acq_rel);
}

bool any_tasks_left(const Pool& pool) {
    uint32_t places = pool.places.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < places; i++) {
        Worker* worker = pool.member(i);
        Locked locked(worker->lock);
        if (worker->task_count()) return true;
    }
    return false;
}

bool pop_task(Worker& worker, Task* out) {
    return (worker.batch.count() && worker.batch.pop(out)) || worker.tasks.pop(out);
}

bool search(Worker& worker) {
    Pool& pool = *worker.pool;
    for (;;) {
        if (!worker.searches) {
            uint32_t most = pool.places.load(std::memory_order_relaxed) / 2;
            bool many = pool.searching.load(std::memory_order_relaxed) >= (most ? most : 1);
            if (many && !worker.must_search) return false; // the worker looks once more before it sleeps
            pool.searching.fetch_add(1, std::memory_order_acq_rel);
            worker.searches = true;
        }
        worker.must_search = false;
        // If these succeed, the worker counts as searching until it has taken a task.
        if (steal_from_any(worker)) return true;
        if (spin_for_tasks(worker) && (worker.task_count() || steal_from_any(worker))) return true;
        in_between();
        worker.searches = false;
        pool.searching.fetch_sub(1, std::memory_order_acq_rel);
        in_between();
        // A submitter that saw this worker searching has called none, and relies on this look.
        if (!any_tasks_left(pool)) return false;
        worker.must_search = true;
        if (worker.task_count()) {
            // It counts as searching again, so that it calls the next searcher when it stops: other queues may also
            // have tasks whose submitters relied on this search.
            pool.searching.fetch_add(1, std::memory_order_acq_rel);
            return worker.searches = true;
        }
    }
}

void stop_searching_now(Worker& worker) {
    worker.searches = false;
    end_search(*worker.pool);
}

Worker* take_idle(Pool& pool) {
    uint32_t places = pool.places.load(std::memory_order_acquire);
    for (Distance most : {Distance::awake, Distance::asleep, Distance::in_loop}) {
        for (uint32_t w = 0; w * 64 < places; w++) {
            uint64_t word = pool.idle[w].load(std::memory_order_relaxed);
            for (; word; word &= word - 1) {
                Worker* worker = pool.member(w * 64 + uint32_t(__builtin_ctzll(word)));
                if (distance(*worker) <= most && clear_idle_bit(*worker)) return worker;
            }
        }
    }
    return nullptr;
}

void call_searcher(Pool& pool) {
    for (;;) {
        uint32_t none = 0;
        if (!pool.idlers.load(std::memory_order_relaxed) || pool.searching.load(std::memory_order_relaxed)) return;
        if (!pool.searching.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) return;
        // By now another pool may have the slot: then one of its workers is called, for nothing.
        while (Worker* worker = take_idle(pool)) {
            // A foreign loop may keep a worker for long. So that worker looks when it returns, and does not count as
            // searching.
            if (!worker->in_loop && worker_call(*worker, PoolTable::id_of(&pool), true)) return;
            worker_wake(*worker);
        }
        pool.searching.fetch_sub(1, std::memory_order_acq_rel);
        // Tasks may be left whose submitters relied on `searching`. If no idle bit is set after the look, nothing needs
        // to be done: a worker that sets its bit later looks, too.
        if (!any_tasks_left(pool) || !any_idle(pool)) return;
    }
}

void end_search(Pool& pool) {
    uint32_t before = pool.searching.fetch_sub(1, std::memory_order_acq_rel);
    in_between();
    // A write, for the order: a worker that becomes idle after it looks at all queues after this thread's decrement. So
    // a submitter that comes after that look sees the decrement, and calls that worker.
    if (before == 1 && pool.idlers.fetch_add(0, std::memory_order_acq_rel) && any_tasks_left(pool)) {
        call_searcher(pool);
    }
}

} // namespace fiberrt
