// SPDX-License-Identifier: MIT OR Apache-2.0
// A worker: how it begins and leaves, gets tasks and is called, and the WorkOps by which its cord looks for tasks.
#include "pool/worker.h"

#include "base/keep_errno.h"
#include "base/planted.h"
#include "core/children.h"
#include "core/hooks.h"
#include "core/life.h"
#include "core/scheduler.h"
#include "pool/pool.h"
#include "pool/search.h"
#include "pool/task_fiber.h"

#include <errno.h>
#include <initializer_list>

namespace fiberrt {

namespace {

// Marks the worker as not idle. Returns whether it has been asked to search.
bool clear_idle(Worker& worker, bool message_has_come) {
    Locked locked(worker.lock);
    if (message_has_come) worker.message_under_way = false;
    bool asked = worker.search_asked;
    worker.idle = worker.search_asked = false;
    return asked;
}

// Undoes a call whose message did not reach the worker, because it had left. Another thread may have the record by now,
// and senders that saw the message under way have not called that thread: so it is woken.
void message_undelivered(Worker& worker) {
    bool asked;
    {
        Locked locked(worker.lock);
        worker.message_under_way = false;
        asked = worker.search_asked;
        worker.search_asked = false;
    }
    if (asked) end_search(*worker.pool);
    worker_wake(worker);
}

void called(Cord& cord, Message* message) {
    Worker& worker = *static_cast<WorkerMessage*>(message)->worker;
    Pool& pool = *worker.pool;
    if (cord.work != &worker.work) return message_undelivered(worker);
    clear_idle_bit(worker);
    bool asked = clear_idle(worker, true);
    if (pool.over.load(std::memory_order_acquire)) wake_leavers(worker);
    bool at_once =
        cord.sched.queue.empty() && !worker.in_loop; // others that are runnable may take long, as may the loop
    bool wanted = asked || worker.task_count();      // else there is no task any more, or the pool is over
    bool works = wanted && !fetching_fiber_goes_on(worker) && make_task_fiber(cord, worker);
    if (asked && works && at_once && !worker.searches) {
        worker.searches = true;
    } else if (asked) {
        end_search(pool);
    }
    if (!at_once && worker.task_count()) call_searcher(pool); // another worker can run the task sooner
}

void stop_leave(Wait* wait, int reason) {
    auto* leaver = static_cast<LeaveWait*>(wait);
    LeaveWait** at = &leaver->worker->leavers;
    while (*at != leaver) at = &(*at)->next;
    *at = leaver->next;
    wake(wait, reason);
}

int wait_to_leave(Cord& cord, Worker& worker, bool stoppable) {
    LeaveWait wait;
    wait.worker = &worker;
    wait.stop = stoppable ? stop_leave : nullptr;
    wait.on_deadline = -ETIMEDOUT;
    wait.what = WaitFor::pool;
    wait.next = worker.leavers;
    worker.leavers = &wait;
    return int(park(cord, wait));
}

bool emptied(Worker& worker) {
    Locked locked(worker.lock);
    if (worker.task_count() || worker.own_tasks.count()) return false;
    worker.serves = 0;
    return true;
}

void drop(Cord& cord, Worker& worker, bool own) {
    Task task;
    for (;;) {
        {
            Locked locked(worker.lock);
            if (!(own ? worker.own_tasks.pop(&task) : pop_task(worker, &task))) return;
        }
        if (task.child) child_never_begins(cord, task.child, -EOWNERDEAD);
        hooks::tsan_release(worker.pool);
        worker.finished.store(worker.finished.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
}

} // namespace

bool worker_make_room(Worker& worker, TaskQueue& queue, uint32_t capacity) {
    KeepErrno keep;
    auto* ring = static_cast<Task*>(malloc(capacity * sizeof(Task)));
    if (!ring) return false;
    Task* unneeded = ring;
    {
        Locked locked(worker.lock);
        if (queue.capacity() < capacity) unneeded = queue.move_to(ring, capacity);
    }
    free(unneeded);
    return true;
}

void worker_shrink(Worker& worker) {
    for (TaskQueue* queue : {&worker.tasks, &worker.own_tasks}) {
        if (queue->capacity() <= TaskQueue::first_room) continue;
        auto* ring = static_cast<Task*>(malloc(TaskQueue::first_room * sizeof(Task)));
        if (!ring) continue;
        Task* unneeded;
        {
            Locked locked(worker.lock);
            unneeded = queue->count() ? ring : queue->move_to(ring, TaskQueue::first_room);
        }
        free(unneeded);
    }
}

int worker_put(Worker& worker, const Task& task, const Put& how, bool call) {
    TaskQueue& queue = how.same_thread ? worker.own_tasks : worker.tasks;
    for (;;) {
        uint32_t capacity = 0;
        Cord* to = nullptr;
        {
            Locked locked(worker.lock);
            if (worker.serves != how.pool_id || (worker.leaving && !how.by_worker)) return -ESRCH;
            if (call && (!worker.idle || worker.message_under_way)) return -EBUSY; // a second task would wait there
            if (worker.pool->closing.load(std::memory_order_relaxed) && !how.by_task) return -EPIPE;
            if (queue.room()) {
                queue.push(task);
                // Relaxed: the thread that adds up has taken this lock since, or has seen a later task end.
                worker.accepted.store(worker.accepted.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
                worker.message_under_way |= call;
                if (call) to = worker.cord;
            } else {
                capacity = queue.capacity() ? 2 * queue.capacity() : TaskQueue::first_room;
            }
        }
        if (capacity) {
            if (capacity > UINT32_MAX / 2 || !worker_make_room(worker, queue, capacity)) return -ENOMEM;
            continue;
        }
        if (to && !send(*to, &worker.message)) message_undelivered(worker);
        return 0;
    }
}

bool worker_call(Worker& worker, uint64_t pool_id, bool search) {
    Cord* to = nullptr;
    {
        Locked locked(worker.lock);
        if (worker.serves != pool_id || !worker.cord) return false; // it has not begun, and will look by itself
        if (search && (!worker.idle || worker.search_asked)) return false;
        if (search) worker.search_asked = true;
        if (!worker.message_under_way) to = worker.cord;
        worker.message_under_way = true;
    }
    if (to && !send(*to, &worker.message)) message_undelivered(worker);
    return true;
}

void worker_wake(Worker& worker) {
    uint64_t serves;
    {
        Locked locked(worker.lock);
        serves = worker.serves;
    }
    if (serves) worker_call(worker, serves, false);
}

namespace {

void busy(Cord& cord) {
    Worker& worker = *worker_of(cord);
    worker.starved = false;
    if (!worker.idle) return;
    clear_idle_bit(worker);
    if (clear_idle(worker, false)) end_search(*worker.pool);
    if (worker.task_count()) call_searcher(*worker.pool); // the fiber that now runs may take long
}

bool idle(Cord& cord) { // coverage: no memory
    Worker& worker = *worker_of(cord);
    Pool& pool = *worker.pool;
    // It tries once between two sleeps, so that fibers that could give memory back have their turn, too.
    bool starved = worker.starved;
    if (worker.own_tasks.count() || worker.task_count()) {
        if (!starved && make_task_fiber(cord, worker)) return true;
        if (worker.task_count()) call_searcher(pool); // another worker may have a stack
        return false;
    }
    worker.starved = false;
    if (worker.leaving) {
        if (!worker.task_fibers) wake_leavers(worker); // other workers have taken its tasks
    } else if (!worker.own_only && !at_limit(worker)) {
        in_between();
        become_idle(worker);
        in_between();
        if (!PLANTED(no_look_before_sleep) && any_tasks_left(pool)) {
            busy(cord);
            worker.must_search = true;
            if (!starved && make_task_fiber(cord, worker)) return true;
            worker.starved |= starved;
        }
    }
    if (pool.closing.load(std::memory_order_relaxed)) pool_look_whether_over(pool);
    if (cord.sched.queue.empty()) return false;
    busy(cord);
    return true;
}

void tick(Cord& cord) {
    Worker& worker = *worker_of(cord);
    if ((worker.task_count() || worker.own_tasks.count()) && !fetching_fiber_goes_on(worker))
        make_task_fiber(cord, worker);
}

bool starved(const Cord& cord) { return worker_of(cord)->starved; }

void suspended(Cord& cord, bool now) { worker_of(cord)->in_loop = now; }

void leave(Cord& cord) { worker_leave(cord, false); }

void abandon(Cord& cord) { // coverage: race
    Worker& worker = *worker_of(cord);
    Pool& pool = *worker.pool;
    busy(cord);
    uint64_t begun = 0;
    fibers.each([&](Fiber* fiber) {
        bool ours = fiber->cord.load(std::memory_order_relaxed) == &cord && fiber->life.kind == Kind::task_fiber;
        if (ours && fiber->sched.state != State::scheduled && fiber->sched.state != State::awaiting_stack) begun++;
    });
    if (worker.fetching_fiber && !worker.fetching_fiber_in_task && fetching_fiber_goes_on(worker) &&
        worker.fetching_fiber->sched.state != State::scheduled &&
        worker.fetching_fiber->sched.state != State::awaiting_stack) {
        begun--; // between two tasks
    }
    {
        Locked locked(worker.lock);
        worker.leaving = true;
        worker.serves = 0;
        worker.cord = nullptr;
    }
    cord.work = nullptr;
    if (begun || worker.own_tasks.count()) {
        Locked locked(pool.lock);
        pool.lost = true;
    }
    drop(cord, worker, true);
    task_ended(worker, begun);
    stop_searching(worker);
    worker.fetching_fiber = nullptr;
    worker.task_fibers = 0;
    worker.leavers = nullptr;
    pool_member_left(pool, worker);
    call_searcher(pool);
}

constexpr WorkOps begun = {idle, busy, tick, starved, suspended, task_fiber_waits, task_fiber_ended, leave, abandon};

// The thread has called pthread_exit in the initialiser: it has no tasks yet.
void abandon_unbegun(Cord& cord) {
    worker_begin(cord, *worker_of(cord));
    abandon(cord);
}

constexpr WorkOps unbegun = {
    .idle = [](Cord&) { return false; },
    .busy = [](Cord&) {},
    .tick = [](Cord&) {},
    .starved = [](const Cord&) { return false; },
    .suspended = [](Cord&, bool) {},
    .waits_for_stack = [](Cord&) {},
    .fiber_ended = [](Cord&, const Fiber*) {},
    .leave = nullptr,
    .abandon = abandon_unbegun,
};

} // namespace

void worker_prepare(Cord& cord, Worker& worker) {
    worker.work.ops = &unbegun;
    worker.begun = false;
    cord.work = &worker.work;
}

void worker_begin(Cord& cord, Worker& worker) {
    worker.message.receive = called;
    worker.message.worker = &worker;
    {
        Locked locked(worker.lock);
        worker.cord = &cord;
    }
    worker.in_loop = false;
    worker.times_begun++;
    worker.leaver_count = 0;
    worker.work.ops = &begun;
    worker.begun = true;
    cord.work = &worker.work;
}

void worker_wait(Cord& cord) { wait_to_leave(cord, *worker_of(cord), false); }

int worker_leave(Cord& cord, bool stoppable) {
    Worker& worker = *worker_of(cord);
    {
        Locked locked(worker.lock);
        worker.leaving = true;
    }
    busy(cord);
    uint32_t time = worker.times_begun;
    worker.leaver_count++;
    while (worker.task_fibers || !emptied(worker)) {
        int error = wait_to_leave(cord, worker, stoppable);
        // Another fiber's worker_leave may have returned first, and a third fiber may have bound the thread again.
        if (cord.work != &worker.work || worker.times_begun != time) return 0;
        if (!error) continue;
        if (--worker.leaver_count) return error; // others still want to leave
        Locked locked(worker.lock);
        worker.leaving = false;
        return error;
    }
    cord.work = nullptr;
    wake_leavers(worker);
    // Its last task may have ended before this thread saw `closing`. After emptied() has taken the lock, it sees it.
    if (worker.pool->closing.load(std::memory_order_relaxed)) pool_look_whether_over(*worker.pool);
    pool_member_left(*worker.pool, worker);
    return 0;
}

void worker_drop_tasks(Cord& cord, Worker& worker) { drop(cord, worker, false); }

} // namespace fiberrt
