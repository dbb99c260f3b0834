// SPDX-License-Identifier: MIT OR Apache-2.0
// Fibers that run tasks one after the other on one stack.
#include "pool/task_fiber.h"

#include "core/children.h"
#include "core/hooks.h"
#include "core/life.h"
#include "core/scheduler.h"
#include "pool/pool.h"
#include "pool/search.h"

namespace fiberrt {

namespace {

bool take_own(Worker& worker, Task* out) {
    if (!worker.own_tasks.count()) return false; // only this thread changes the count
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

void* run_one(const Task& task) {
    if (!task.child) return task.fn(task.arg);
    auto fn = reinterpret_cast<int64_t (*)(void*)>(reinterpret_cast<void (*)()>(task.fn));
    return reinterpret_cast<void*>(intptr_t(fn(task.arg)));
}

// Whether the control bits, such as the rounding mode, differ from those of a new fiber. Exception flags do not count.
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

// Whether the task has left anything that a new fiber does not have. Then the fiber ends with its task. So it does in
// the child of a fork, where the fiber is no task fiber any more and no thread works for the pool.
bool left_state(const Cord& cord, const Fiber* me) {
    const auto* exceptions = static_cast<const char*>(cord.thread_state.exceptions);
    bool thrown = *reinterpret_cast<void* const*>(exceptions) || *reinterpret_cast<const uint32_t*>(exceptions + 8);
    uint32_t generation = me->generation.load(std::memory_order_relaxed);
    return me->sched.pending | me->sched.permit | me->requests.cancelled | me->requests.interrupt_pending |
           me->extras.flags | me->extras.locks_held | me->extras.tag_kind | (me->name[0] != 0) |
           (me->scopes != nullptr) | !me->joiners.empty() | (me->values.locals != nullptr) |
           (me->received.transferrer != 0) | (cord.no_switch.depth != 0) | (me->life.kind != Kind::task_fiber) |
           thrown | (generation >= UINT32_MAX - 2) | changed_floating_point();
}

// Makes the fiber look new: its handle is stale, as if another fiber had its slot, and its joiners get the result.
void renew(Fiber* me, void* result) {
    EndWait* joiners = joiners_elsewhere(me);
    me->requests.asked_elsewhere = false;
    fibers.end_use(me);
    me->generation.store(me->generation.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (joiners) end_waits_complete(joiners, result, 0);
}

void* run_tasks(void* argument) {
    Worker& worker = *static_cast<Worker*>(argument);
    Cord& cord = *this_cord;
    Fiber* me = cord.sched.current;
    Task task;
    while (next_task(worker, &task)) {
        if (!task.child || child_begins(cord, task.child, me)) {
            worker.fetching_fiber_in_task = true;
            if (cord.hooked & hooked_by_recorder) cord.recorder.ops->task_begins(cord, me, task.fn);
            void* result = run_one(task);
            if (left_state(cord, me)) [[unlikely]]
                return result;
            record_end(cord, me);
            renew(me, result);
            if (cord.hooked & hooked_by_recorder) cord.recorder.ops->renewed(cord, me);
            *cord.thread_state.errno_address = 0;
        }
        task_ended(worker);
        if (worker.fetching_fiber != me) {
            if (fetching_fiber_goes_on(worker)) break;
            worker.fetching_fiber = me;
        }
        worker.fetching_fiber_in_task = false;
        if (cord.sched.queue.empty()) {
            charge_and_poll(cord);
        } else { // fibers that were woken come before new tasks
            reschedule(cord, me);
        }
    }
    if (worker.fetching_fiber == me) worker.fetching_fiber = nullptr;
    me->life.kind = Kind::internal; // it runs no task any more
    if (--worker.task_fibers == 0) wake_leavers(worker);
    return nullptr;
}

} // namespace

void task_ended(Worker& worker, uint64_t n) {
    hooks::tsan_release(worker.pool); // ThreadSanitizer: the closer sees the task's writes
    // Release: a thread that counts this task as ended also counts the tasks that it has submitted.
    worker.finished.store(worker.finished.load(std::memory_order_relaxed) + n, std::memory_order_release);
    Pool& pool = *worker.pool;
    if (pool.closing.load(std::memory_order_relaxed) && !worker.task_count()) [[unlikely]]
        pool_look_whether_over(pool);
}

void wake_leavers(Worker& worker) {
    while (LeaveWait* wait = worker.leavers) {
        worker.leavers = wait->next;
        wake(wait, 0);
    }
}

bool fetching_fiber_goes_on(const Worker& worker) {
    const Fiber* fiber = worker.fetching_fiber;
    if (!fiber) return false;
    switch (fiber->sched.state) {
    case State::scheduled:
    case State::awaiting_stack: return true;
    case State::running:
    case State::queued:
    case State::woken: return !worker.fetching_fiber_in_task;
    default: return false;
    }
}

bool at_limit(const Worker& worker) {
    uint32_t limit = worker.pool->task_limit;
    return limit && worker.task_fibers >= limit;
}

bool make_task_fiber(Cord& cord, Worker& worker) {
    if (at_limit(worker)) return false;
    if (worker.fetching_fiber && worker.fetching_fiber->sched.state == State::awaiting_stack) return false;
    Fiber* fiber;
    worker.starved = fiber_create(cord, Kind::task_fiber, &fiber) < 0;
    if (worker.starved) return false;
    fiber->call.fn = run_tasks;
    fiber->call.arg = &worker;
    fiber->stack_class = worker.pool->stack_class;
    fiber->life.detached = true;
    fiber->sched.state = State::scheduled;
    cord.sched.queue.push(fiber);
    worker.task_fibers++;
    worker.fetching_fiber = fiber;
    worker.fetching_fiber_in_task = false;
    return true;
}

void task_fiber_ended(Cord& cord, const Fiber* fiber) {
    Worker& worker = *worker_of(cord);
    if (worker.fetching_fiber == fiber) worker.fetching_fiber = nullptr;
    if (fiber->life.end_error) {
        // coverage: no memory
        worker.starved = true; // it has never run
    } else {
        task_ended(worker);
    }
    stop_searching(worker);
    if (--worker.task_fibers == 0) wake_leavers(worker);
}

void task_fiber_waits(Cord& cord) {
    Worker& worker = *worker_of(cord);
    stop_searching(worker);
    if (worker.task_count()) call_searcher(*worker.pool);
}

} // namespace fiberrt
