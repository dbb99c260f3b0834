// SPDX-License-Identifier: MIT OR Apache-2.0
// fork's handlers: take all locks before the fork, and discard other fibers, cords and pools in the child.
#include "fork/fork.h"

#include "agent/agent.h"
#include "base/keep_errno.h"
#include "base/one_thread.h"
#include "base/try_once.h"
#include "core/begin.h"
#include "core/children.h"
#include "core/cord.h"
#include "embed/embed.h"
#include "core/hooks.h"
#include "core/life.h"
#include "embed/locals.h"
#include "core/mappings.h"
#include "core/noswitch.h"
#include "core/scheduler.h"
#include "debug/ask_thread.h"
#include "debug/creation.h"
#include "debug/dump_signal.h"
#include "debug/look.h"
#include "debug/overflow.h"
#include "debug/running_frames.h"
#include "pool/pool.h"
#include "record/recorder.h"
#include "debug/watchdog.h"
#include "io/fork.h"
#include "sim/sim.h"
#include "sync/fork.h"
#include "trace/session.h"
#include "trace/tap.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr const ForkPart* parts[] = {&fork_part_of_sync, &fork_part_of_io};
constinit std::atomic<int> policy{FIBER_FORK_CONTINUE}; // relaxed: no other data depends on it
bool forked_alone; // the process that forks has one thread, and that one cord. From before_fork() on, under its locks

// Whether the calling thread is in the function of a fiber with a stack. Not so in user code that a poll, a switch or a
// hook calls, or in the turn of a fiber without a stack.
bool in_users_code(const Cord& cord) {
    return cord.sched.current && cord.sched.current->sched.state == State::running &&
           cord.sched.current->uses_stack() && !in_hook(cord);
}

void before_fork() {
    KeepErrno keep;
    // Receives all messages now, so that the child loses only messages that come later.
    if (this_cord && in_users_code(*this_cord)) receive_all(*this_cord);
    for (const ForkPart* part : parts) part->before();
    forked_alone = one_thread() && !environment; // read here: in the child it may be true in any case
    agent_lock();
    creation_lock();
    dump_signal_lock();
    running_frames_lock();
    watchdog_lock();
    overflow_lock();
    ask_lock();
    look_lock();
    pools_lock();
    trace::lock();
    recorder_lock();
    cords_lock();
    fibers.lock();
    scopes.lock();
    child_records.lock();
    keys_lock();
    mappings_lock();
}

void release_locks() {
    mappings_unlock();
    keys_unlock();
    child_records.unlock();
    scopes.unlock();
    fibers.unlock();
    cords_unlock();
    recorder_unlock();
    trace::unlock();
    pools_unlock();
    look_unlock();
    ask_unlock();
    overflow_unlock();
    watchdog_unlock();
    running_frames_unlock();
    dump_signal_unlock();
    creation_unlock();
    agent_unlock();
    for (const ForkPart* part : parts) part->after();
}

// Frees the values, the timer and the stack of another fiber of the forking thread.
void fiber_free_in_child(Cord& cord, Fiber* fiber) {
    if (fiber->values.locals) fiber->values.locals->ops->free(fiber);
    hooks::fiber_gone(fiber);
    if (fiber->timeout.timer.position) cord.timers.remove(&fiber->timeout.timer);
    if (char* low = fiber->stack_low) cord.stacks.give_back(fiber->stack_class, low);
}

// The requests to the fiber that its cord has not received yet; 0 if they are of an earlier fiber.
uint8_t still_requested(const Fiber* fiber) { // coverage: race
    const RemoteRequests& remote = fiber->remote;
    bool of_it = remote.on_its_way && remote.generation == fiber->generation.load(std::memory_order_relaxed);
    return of_it ? remote.requested &
                       (request_wakeup | request_cancel | request_interrupt | request_detach | request_scopes)
                 : 0;
}

// Drops the remote requests to a fiber: the threads that sent requests, and the fibers that wait for its end, are gone.
void clear_remote(Fiber* fiber) {
    fiber->remote.lock.reset();
    fiber->remote.on_its_way = false;
    fiber->remote.requested = 0;
    fiber->remote.joiners = {};
}

bool is_open_scope_of(const Scope* scope, const Fiber* fiber) {
    bool in_use = scope->generation.load(std::memory_order_relaxed) & 1;
    return in_use && fiber && scope->fiber.load(std::memory_order_relaxed) == fiber && scope_is_of(scope, fiber);
}

// Frees all slots of fibers and scopes, except those of the fiber that continues.
void discard_others(const Forked& forked) {
    Cord* cord = forked.cord;
    fibers.reclaim([&](Fiber* fiber) {
        if (fiber == forked.fiber) return true;
        if (!(fiber->generation.load(std::memory_order_relaxed) & 1)) {
            clear_remote(fiber);
            return cord && fiber == cord->main_flow.fiber; // kept since an earlier fork
        }
        if (cord && fiber->cord.load(std::memory_order_relaxed) == cord) fiber_free_in_child(*cord, fiber);
        bool main_flow = cord && fiber == cord->main_flow.fiber;
        if (main_flow) SlotTable<Fiber, Tag::fiber>::end_use(fiber);
        fiber->empty();
        fiber->extras.locks_held = 0;
        fiber->sched.state = State::dead;
        fiber->cord.store(nullptr, std::memory_order_relaxed);
        clear_remote(fiber);
        return main_flow; // the slot stays the cord's, because calls read cord.main_flow.fiber
    });
    scopes.reclaim([&](Scope* scope) {
        scope->lock.reset();
        return is_open_scope_of(scope, forked.fiber);
    });
}

// Repairs the thread's cord, in which only the one fiber is left.
void keep_only(Cord& cord, Fiber* me) {
    while (cord.sched.queue.pop()) continue;
    cord.awaiting_stack.first = cord.awaiting_stack.last = nullptr;
    cord.free.fibers = {};
    cord.free.scopes = {};
    cord.free.children = {};
    cord.shared.ended = {};
    cord.shutdown.quiet_waits = {};
    cord.shared.count = 0;
    cord.children.due = nullptr;
    cord.children.cancelling = false;
    cord.work = nullptr;
    cord.counts.fibers = 1;
    cord.counts.live = cord.counts.daemons = 0;
    cord.children.parents = 0;
    for (Scope* s = me->scopes; s; s = s->outer) cord.children.parents += s->has_children;
    cord.executor.fiber = cord.executor.offered_first = cord.executor.offered_last = nullptr;
    cord.executor.exchanger = nullptr;
    cord.doorbell_fd = -1;
    cord.thread = int(syscall(SYS_gettid));
    cord.sleep.rings_owed = 0;
    me->joiners = {};
    if (me != cord.main_flow.fiber) {
        me->life.kind = Kind::keeps_cord;
        cord.counts.live = 1;
        cord.started = false; // the cord cannot be joined: the main flow's function does not return
        cord.main_flow.last_class = me->stack_class;
        cord.main_flow.ends_process = true;
    }
    uint8_t requested = still_requested(me);
    clear_remote(me);
    cord.lock.reset();
    cord.joiners = {};
    cord.inbox.open();
    if (requested) { // coverage: race
        me->remote.requested = requested;
        me->remote.on_its_way = true;
        cord.inbox.push(&me->remote.message);
    }
    this_cord = &cord; // also if it was suspended for a foreign loop
}

// Makes the library refuse all use in this process.
void refuse(const Forked& forked) {
    fork_refused = true;
    if (!forked.cord) return;
    forked.cord->counts.room = 0;                         // the next fiber is made by the slow way, which refuses
    forked.cord->no_switch.depth = 0x1000 * hook_section; // never left
    forked.fiber->sched.pending |= pending_noswitch;
}

void child_begins() {
    KeepErrno keep;
    release_locks();
    trace::forked();
    agent_forked();
    Cord* cord = cord_if_any();
    if (cord && !in_users_code(*cord)) { // the cord is in the middle of a change, and cannot be repaired
        fork_refused = true;
        recorder_forked(nullptr);
        return;
    }
    Forked forked = {cord, cord ? cord->sched.current : nullptr, forked_alone};
    if (cord) this_cord = cord;
    if (environment) simulation_forked(cord);
    cords.each([](Cord* each) {
        if (each->generation.load(std::memory_order_relaxed) & 1) embed_forked(*each);
    });
    for (const ForkPart* part : parts) part->child(forked);
    children_forked(forked.fiber);
    discard_others(forked);
    cords_forked(cord);
    pools_forked();
    awake_forked(cord ? 1 : 0);
    ask_forked();
    watchdog_forked();
    dump_signal_forked();
    running_frames_forked();
    if (cord) keep_only(*cord, forked.fiber);
    trace::tap_close();
    recorder_forked(cord);
    bool of_use = policy.load(std::memory_order_relaxed) != FIBER_FORK_REFUSE;
    if (cord && environment && environment->open(*cord) < 0) of_use = false; // time would not pass
    if (!of_use) refuse(forked);
}

// Registers the handlers once for the process: the core may call this again after a failure, and handlers registered
// twice would lock twice.
bool install_handlers() {
    static constinit TryOnce installed;
    return installed([] { return pthread_atfork(before_fork, release_locks, child_begins) == 0; });
}

FIBERRT_INITIALIZER(When::first_query, install_handlers);

} // namespace

int fork_policy_set(int wanted) {
    if (wanted != FIBER_FORK_CONTINUE && wanted != FIBER_FORK_REFUSE) return -EINVAL;
    policy.store(wanted, std::memory_order_relaxed);
    return 0;
}

} // namespace fiberrt
