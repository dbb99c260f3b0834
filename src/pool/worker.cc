// SPDX-License-Identifier: MIT OR Apache-2.0
// How a worker finds tasks, and how a runner runs them.
#include "pool/worker.h"

#include "base/keep_errno.h"
#include "core/children.h"
#include "core/hooks.h"
#include "core/life.h"
#include "pool/pool.h"
#include "core/relay.h"

#include <errno.h>
#include <initializer_list>

namespace fiberrt {

struct LeaveWait : Wait {
    Worker* worker;
    LeaveWait* next; // in Worker::leavers
};

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

// ---- Who is idle

std::atomic<uint64_t>& word_of(const Worker& worker) { return worker.pool->idle[worker.index / 64]; }
uint64_t bit_of(const Worker& worker) { return uint64_t(1) << worker.index % 64; }

// False: somebody else has taken it.
bool take_bit(const Worker& worker) {
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
    // Who has put a task somewhere sees it by the locks that are taken next; see worker.h. Release: who ceases to search,
    // too, and else this sees that; see cease_to_search.
    worker.pool->idlers.fetch_add(1, std::memory_order_acq_rel);
    in_between();
    word_of(worker).fetch_or(bit_of(worker), std::memory_order_acq_rel);
}

bool any_idle(const Pool& pool) {
    uint32_t places = pool.places.load(std::memory_order_acquire);
    for (uint32_t w = 0; w * 64 < places; w++) {
        if (pool.idle[w].load(std::memory_order_relaxed)) return true;
    }
    return false;
}

// Whether there are tasks in any queue that others may take from.
bool anything_left(const Pool& pool) {
    uint32_t places = pool.places.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < places; i++) {
        Worker* worker = pool.member(i);
        Locked locked(worker->lock);
        if (worker->task_count()) return true;
    }
    return false;
}

// The oldest that anybody may take. Under the worker's lock.
bool pop_task(Worker& worker, Task* out) {
    return (worker.batch.count() && worker.batch.pop(out)) || worker.tasks.pop(out);
}

// How soon a call reaches it; a guess.
enum class Distance : uint8_t { awake, asleep, in_loop };

Distance distance(const Worker& worker) {
    if (worker.in_loop) return Distance::in_loop;
    const Cord* cord = worker.cord;
    return cord && !cord->inbox.is_parked() ? Distance::awake : Distance::asleep;
}

// ---- Stealing

// Moves half of what there is. Whether there was any.
bool steal(Worker& from, Worker& to) {
    if (!from.task_count()) return false; // a guess; before one sleeps one looks under the lock
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

// A guess.
bool any_tasks(void* argument) {
    const Pool& pool = *static_cast<const Pool*>(argument);
    uint32_t places = pool.places.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < places; i++) {
        if (pool.member(i)->task_count()) return true;
    }
    return false;
}

// Looks out for tasks, as cords do for messages. As it is counted among those who search, who submits one calls nobody.
bool tasks_come(Worker& worker) {
    Cord& cord = *this_cord;
    if (!cord.queue.empty() || cord.loop.fd >= 0) return false; // a foreign loop may have more to do
    worker.pool->looks_out = worker.index;
    return look_out(cord, idle_until(cord), any_tasks, worker.pool);
}

// True: there may be tasks in its own queue now.
bool search(Worker& worker) {
    Pool& pool = *worker.pool;
    for (;;) {
        if (!worker.searches) {
            uint32_t most = pool.places.load(std::memory_order_relaxed) / 2;
            bool many = pool.searching.load(std::memory_order_relaxed) >= (most ? most : 1);
            if (many && !worker.must_search) return false; // it looks once more before it sleeps
            pool.searching.fetch_add(1, std::memory_order_acq_rel);
            worker.searches = true;
        }
        worker.must_search = false;
        // It goes on searching until it has taken one.
        if (steal_from_any(worker)) return true;
        if (tasks_come(worker) && (worker.task_count() || steal_from_any(worker))) return true;
        in_between();
        worker.searches = false;
        pool.searching.fetch_sub(1, std::memory_order_acq_rel);
        in_between();
        // Whoever put something there since and saw that somebody searches relies on this.
        if (!anything_left(pool)) return false;
        worker.must_search = true;
        if (worker.task_count()) {
            // It counts again, so that it passes the call on: elsewhere, too, something may have been put by somebody who
            // relied on this search.
            pool.searching.fetch_add(1, std::memory_order_acq_rel);
            return worker.searches = true;
        }
    }
}

void stop_searching(Worker& worker) {
    if (!worker.searches) return;
    worker.searches = false;
    cease_to_search(*worker.pool);
}

// It is idle no more; whether it has been asked to search.
bool rise(Worker& worker, bool message_has_come) {
    Locked locked(worker.lock);
    if (message_has_come) worker.message_under_way = false;
    bool asked = worker.search_asked;
    worker.idle = worker.search_asked = false;
    return asked;
}

// It has not come to the worker, which had left. Who has the record by now may have been thought to be called.
void message_astray(Worker& worker) {
    bool asked;
    {
        Locked locked(worker.lock);
        worker.message_under_way = false;
        asked = worker.search_asked;
        worker.search_asked = false;
    }
    if (asked) cease_to_search(*worker.pool);
    worker_wake(worker);
}

// ---- Running

bool take_own(Worker& worker, Task* out) {
    if (!worker.own_tasks.count()) return false; // nobody else changes that
    Locked locked(worker.lock);
    return worker.own_tasks.pop(out);
}

bool take_any(Worker& worker, Task* out) {
    if (worker.batch.count() && worker.batch.pop(out)) return true;
    Locked locked(worker.lock);
    if (!worker.tasks.pop(out)) return false;
    worker.batch.fill(worker.tasks);
    return true;
}

bool take(Worker& worker, Task* out) {
    worker.own_last = !worker.own_last; // in turn, so that neither kind waits for ever
    if (worker.own_last) return take_own(worker, out) || take_any(worker, out);
    return take_any(worker, out) || take_own(worker, out);
}

bool next_task(Worker& worker, Task* out) {
    for (;;) {
        if (take(worker, out)) {
            stop_searching(worker);
            return true;
        }
        if (worker.leaving || worker.own_only) {
            stop_searching(worker);
            return false;
        }
        if (!search(worker)) return false;
    }
}

void* run(const Task& task) {
    if (!task.child) return task.fn(task.arg);
    auto fn = reinterpret_cast<int64_t (*)(void*)>(reinterpret_cast<void (*)()>(task.fn));
    return reinterpret_cast<void*>(intptr_t(fn(task.arg)));
}

// Whether rounding and the like are not as in a fiber that is new. Flags of what has happened do not count.
bool changed_floating_point() {
#if defined(__x86_64__)
    uint32_t sse;
    uint16_t x87;
    asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(sse), "=m"(x87));
    return (sse & ~uint32_t(0x3f)) != 0x1f80 || x87 != 0x37f;
#elif defined(__aarch64__)
    uint64_t control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    return control;
#elif defined(__riscv)
    unsigned long rounding;
    asm volatile("frrm %0" : "=r"(rounding));
    return rounding;
#endif
}

// Whether the task has left anything that a fiber that is new does not have, or should not: then it ends as a fiber. Or
// it has forked, and this is the child, where it is a fiber and nobody works for the pool.
bool left_something(const Cord& cord, const Fiber* me) {
    const auto* exceptions = static_cast<const char*>(cord.exceptions);
    bool thrown = *reinterpret_cast<void* const*>(exceptions) || *reinterpret_cast<const uint32_t*>(exceptions + 8);
    uint32_t generation = me->generation.load(std::memory_order_relaxed);
    return me->attention | me->permit | me->cancelled | me->interrupt_pending | me->along | me->held | me->tag_kind |
           (me->name[0] != 0) | (me->scopes != nullptr) | !me->joiners.empty() | (me->locals != nullptr) |
           (me->transferrer != 0) | (cord.noswitch_depth != 0) | (me->kind != Kind::runner) | thrown |
           (generation >= UINT32_MAX - 2) | changed_floating_point();
}

// To who has its handle the fiber has ended, and another one has its slot.
void renew(Fiber* me, void* result) {
    EndWait* told = joiners_elsewhere(me);
    me->asked_elsewhere = false;
    fibers.end_use(me);
    me->generation.store(me->generation.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (told) end_waits_complete(told, result, 0);
}

void task_ended(Worker& worker, uint64_t n = 1) {
    hooks::given(worker.pool); // to who closes it
    // Release: who counts it sees what it has submitted.
    worker.finished.store(worker.finished.load(std::memory_order_relaxed) + n, std::memory_order_release);
    Pool& pool = *worker.pool;
    if (pool.closing.load(std::memory_order_relaxed) && !worker.task_count()) [[unlikely]]
        pool_look_whether_over(pool);
}

// All of them look again.
void wake_leavers(Worker& worker) {
    while (LeaveWait* wait = worker.leavers) {
        worker.leavers = wait->next;
        wake(wait, 0);
    }
}

// The taker will look for tasks again without anybody's doing.
bool taker_goes_on(const Worker& worker) {
    const Fiber* taker = worker.taker;
    if (!taker) return false;
    switch (taker->state) {
    case State::scheduled:
    case State::stackless: return true;
    case State::running:
    case State::queued:
    case State::woken: return !worker.taker_in_task;
    default: return false;
    }
}

void* run_tasks(void* argument) {
    Worker& worker = *static_cast<Worker*>(argument);
    Cord& cord = *this_cord;
    Fiber* me = cord.current;
    Task task;
    while (next_task(worker, &task)) {
        if (!task.child || child_begins(cord, task.child, me)) {
            worker.taker_in_task = true;
            void* result = run(task);
            if (left_something(cord, me)) [[unlikely]]
                return result;
            renew(me, result);
            *cord.errno_address = 0;
        }
        task_ended(worker);
        if (worker.taker != me) {
            if (taker_goes_on(worker)) break;
            worker.taker = me;
        }
        worker.taker_in_task = false;
        if (cord.queue.empty()) {
            turn_taken(cord);
        } else { // those who were woken come before new tasks
            take_turns(cord, me);
        }
    }
    if (worker.taker == me) worker.taker = nullptr;
    me->kind = Kind::internal; // no task's any more
    if (--worker.runners == 0) wake_leavers(worker);
    return nullptr;
}

// Whether as many tasks of this worker have begun as are allowed: it begins the next one when one of these ends, and is
// not idle before.
bool at_limit(const Worker& worker) {
    uint32_t limit = worker.pool->task_limit;
    return limit && worker.runners >= limit;
}

// False: none is to be had now.
bool make_taker(Cord& cord, Worker& worker) {
    if (at_limit(worker)) return false;
    if (worker.taker && worker.taker->state == State::stackless) return false;
    Fiber* fiber;
    worker.starved = fiber_create(cord, Kind::runner, &fiber) < 0;
    if (worker.starved) return false;
    fiber->fn = run_tasks;
    fiber->arg = &worker;
    fiber->stack_class = worker.pool->stack_class;
    fiber->detached = true;
    fiber->state = State::scheduled;
    cord.queue.push(fiber);
    worker.runners++;
    worker.taker = fiber;
    worker.taker_in_task = false;
    return true;
}

void called(Cord& cord, Message* message) {
    Worker& worker = *static_cast<WorkerMessage*>(message)->worker;
    Pool& pool = *worker.pool;
    if (cord.work != &worker) return message_astray(worker);
    take_bit(worker);
    bool asked = rise(worker, true);
    if (pool.over.load(std::memory_order_acquire)) wake_leavers(worker);
    bool at_once = cord.queue.empty() && !worker.in_loop; // others that are runnable may take long, as may the loop
    bool wanted = asked || worker.task_count();           // else it was for nothing, or for the end
    bool works = wanted && !taker_goes_on(worker) && make_taker(cord, worker);
    if (asked && works && at_once && !worker.searches) {
        worker.searches = true;
    } else if (asked) {
        cease_to_search(pool);
    }
    if (!at_once && worker.task_count()) call_searcher(pool); // what came with it need not wait for them
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
        hooks::given(worker.pool);
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
                // Relaxed: who adds up has taken the lock since, or sees a task that came later as ended.
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
        if (to && !send(*to, &worker.message)) message_astray(worker);
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
    if (to && !send(*to, &worker.message)) message_astray(worker);
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

Worker* take_idle(Pool& pool) {
    uint32_t places = pool.places.load(std::memory_order_acquire);
    for (Distance most : {Distance::awake, Distance::asleep, Distance::in_loop}) {
        for (uint32_t w = 0; w * 64 < places; w++) {
            uint64_t word = pool.idle[w].load(std::memory_order_relaxed);
            for (; word; word &= word - 1) {
                Worker* worker = pool.member(w * 64 + uint32_t(__builtin_ctzll(word)));
                if (distance(*worker) <= most && take_bit(*worker)) return worker;
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
        // By now the pool may be another one in the same slot: then it is that one's that is called, for nothing.
        while (Worker* worker = take_idle(pool)) {
            // Who is left to a loop may be kept there for long: it looks when it comes, and does not count as searching.
            if (!worker->in_loop && worker_call(*worker, PoolTable::id_of(&pool), true)) return;
            worker_wake(*worker);
        }
        pool.searching.fetch_sub(1, std::memory_order_acq_rel);
        // Else somebody may have relied on us. Not so if no bit is set after that look: whose bit comes now looks, too.
        if (!anything_left(pool) || !any_idle(pool)) return;
    }
}

void cease_to_search(Pool& pool) {
    uint32_t before = pool.searching.fetch_sub(1, std::memory_order_acq_rel);
    in_between();
    // A write, for the order: who becomes idle after it looks at all queues after we have ceased, so that whoever puts
    // something there later sees that, and calls it.
    if (before == 1 && pool.idlers.fetch_add(0, std::memory_order_acq_rel) && anything_left(pool)) {
        call_searcher(pool);
    }
}

namespace {

void busy(Cord& cord) {
    Worker& worker = *worker_of(cord);
    worker.starved = false;
    if (!worker.idle) return;
    take_bit(worker);
    if (rise(worker, false)) cease_to_search(*worker.pool);
    if (worker.task_count()) call_searcher(*worker.pool); // what has woken it may take long
}

bool idle(Cord& cord) {
    Worker& worker = *worker_of(cord);
    Pool& pool = *worker.pool;
    bool starved = worker.starved; // once between two sleeps: who could give memory back must have its turn, too
    if (worker.own_tasks.count() || worker.task_count()) {
        if (!starved && make_taker(cord, worker)) return true;
        if (worker.task_count()) call_searcher(pool); // who may have what is wanting here
        return false;
    }
    worker.starved = false;
    if (worker.leaving) {
        if (!worker.runners) wake_leavers(worker); // others have taken what there was
    } else if (!worker.own_only && !at_limit(worker)) {
        in_between();
        become_idle(worker);
        in_between();
        if (anything_left(pool)) {
            busy(cord);
            worker.must_search = true;
            if (!starved && make_taker(cord, worker)) return true;
            worker.starved |= starved;
        }
    }
    if (pool.closing.load(std::memory_order_relaxed)) pool_look_whether_over(pool);
    if (cord.queue.empty()) return false;
    busy(cord);
    return true;
}

void tick(Cord& cord) {
    Worker& worker = *worker_of(cord);
    if ((worker.task_count() || worker.own_tasks.count()) && !taker_goes_on(worker)) make_taker(cord, worker);
}

void runner_ended(Cord& cord, const Fiber* fiber) {
    Worker& worker = *worker_of(cord);
    if (worker.taker == fiber) worker.taker = nullptr;
    if (fiber->end_error) {
        worker.starved = true; // it has never run
    } else {
        task_ended(worker);
    }
    stop_searching(worker);
    if (--worker.runners == 0) wake_leavers(worker);
}

void runner_waits(Cord& cord) {
    Worker& worker = *worker_of(cord);
    stop_searching(worker);
    if (worker.task_count()) call_searcher(*worker.pool);
}

bool starved(const Cord& cord) { return worker_of(cord)->starved; }

void left_to_loop(Cord& cord, bool left) { worker_of(cord)->in_loop = left; }

void leave(Cord& cord) { worker_leave(cord, false); }

void abandon(Cord& cord) {
    Worker& worker = *worker_of(cord);
    Pool& pool = *worker.pool;
    busy(cord);
    uint64_t begun = 0;
    fibers.each([&](Fiber* fiber) {
        bool ours = fiber->cord.load(std::memory_order_relaxed) == &cord && fiber->kind == Kind::runner;
        if (ours && fiber->state != State::scheduled && fiber->state != State::stackless) begun++;
    });
    if (worker.taker && !worker.taker_in_task && taker_goes_on(worker) && worker.taker->state != State::scheduled &&
        worker.taker->state != State::stackless) {
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
    worker.taker = nullptr;
    worker.runners = 0;
    worker.leavers = nullptr;
    pool_member_left(pool, worker);
    call_searcher(pool);
}

constexpr WorkOps begun = {idle, busy, tick, starved, left_to_loop, runner_waits, runner_ended, leave, abandon};

// The initialiser of the worker runs: it has no tasks yet.
void abandon_unbegun(Cord& cord) { // by pthread_exit in the initialiser
    worker_begin(cord, *worker_of(cord));
    abandon(cord);
}

constexpr WorkOps unbegun = {
    .idle = [](Cord&) { return false; },
    .busy = [](Cord&) {},
    .tick = [](Cord&) {},
    .starved = [](const Cord&) { return false; },
    .left_to_loop = [](Cord&, bool) {},
    .waits_for_stack = [](Cord&) {},
    .fiber_ended = [](Cord&, const Fiber*) {},
    .leave = nullptr,
    .abandon = abandon_unbegun,
};

} // namespace

void worker_prepare(Cord& cord, Worker& worker) {
    worker.ops = &unbegun;
    cord.work = &worker;
}

bool worker_has_begun(const Cord& cord) { return cord.work && cord.work->ops == &begun; }

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
    worker.ops = &begun;
    cord.work = &worker;
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
    while (worker.runners || !emptied(worker)) {
        int error = wait_to_leave(cord, worker, stoppable);
        // Another fiber, which waited for the same, may have been first; and a third one have bound the thread again.
        if (cord.work != &worker || worker.times_begun != time) return 0;
        if (!error) continue;
        if (--worker.leaver_count) return error; // others still want to leave
        Locked locked(worker.lock);
        worker.leaving = false;
        return error;
    }
    cord.work = nullptr;
    wake_leavers(worker);
    // Its last task may have ended before this thread saw the close: now, after the lock, it does.
    if (worker.pool->closing.load(std::memory_order_relaxed)) pool_look_whether_over(*worker.pool);
    pool_member_left(*worker.pool, worker);
    return 0;
}

void worker_drop_tasks(Cord& cord, Worker& worker) { drop(cord, worker, false); }

} // namespace fiberrt
