// SPDX-License-Identifier: MIT OR Apache-2.0
// Fibers' creation, end and joins: the parts of core/life.h that are not inlined.
// fuzz: switch 45 %
#include "core/life.h"

#include "base/keep_errno.h"
#include "base/planted.h"
#include "base/report.h"
#include "core/hooks.h"
#include "core/noswitch.h"
#include "core/backend.h"
#include "core/scheduler.h"

#include <errno.h>
#include <unistd.h>
#include <unwind.h>
#include <stdlib.h>

namespace fiberrt {

constinit SlotTable<Fiber, Tag::fiber> fibers;

namespace {

bool any_joins(EndWait* wait) { // wait: the first of a chain that was taken out of a list
    while (wait && !wait->joins) wait = static_cast<EndWait*>(static_cast<Message*>(wait)->next);
    return wait;
}

} // namespace

void stop_join(Wait* wait, int reason) {
    auto* joiner = static_cast<JoinWait*>(wait);
    joiner->target->joiners.remove(joiner);
    wake(wait, reason);
}

int await_end(Cord& cord, Fiber* target, int64_t deadline) {
    if (target->sched.state == State::dead) {
        charge_and_poll(cord);
        return 0;
    }
    JoinWait wait;
    wait.joins = false;
    wait.begin(target);
    return awaited(int(park(cord, wait, deadline)));
}

void fiber_finish(Cord& cord, Fiber* fiber, void* result, int error) {
    fiber->sched.state = State::dead;
    fiber->sp = nullptr;
    fiber->call.result = result;
    fiber->life.end_error = int8_t(error);
    if (fiber->timeout.timer.position) cord.timers.remove(&fiber->timeout.timer);
    count_fiber(cord, fiber, uint32_t(-1));
    if (!cord.shutdown.quiet_waits.empty()) [[unlikely]]
        wake_quiet_waits(cord);
    bool taken = fiber->life.detached;
    while (JoinWait* joiner = fiber->joiners.pop_front()) {
        joiner->target_result = result;
        wake(cord, joiner, error);
        taken |= joiner->joins;
        if (PLANTED(join_tells_one_joiner)) break;
    }
    EndWait* elsewhere = dead_joiners_elsewhere(cord, fiber, taken);
    if (taken || any_joins(elsewhere)) fiber_free(cord, fiber);
    end_waits_complete(elsewhere, result, error);
}

EndWait* dead_joiners_elsewhere_slowly(Cord& cord, Fiber* fiber, bool gone) {
    EndWait* joiners = take_remote_joiners(fiber);
    if (gone || any_joins(joiners)) notify_destroyed(cord, fiber);
    return joiners;
}

namespace {

// Frees a fiber that has ended, and completes the joins of other cords.
void release(Cord& cord, Fiber* fiber, EndWait* joiners) {
    void* result = fiber->call.result;
    int error = fiber->life.end_error;
    notify_destroyed(cord, fiber);
    fiber_free(cord, fiber);
    end_waits_complete(joiners, result, error);
}

// The fiber that last transferred to this one, if it still waits for this one to transfer back.
Fiber* waiting_transferrer(Fiber* fiber) {
    Fiber* successor;
    if (!fiber->received.transferrer || fibers.resolve(fiber->received.transferrer, &successor) < 0) return nullptr;
    bool waits = successor->sched.state == State::transferring && successor->transfer_to == fibers.id_of(fiber);
    return waits ? successor : nullptr;
}

} // namespace

namespace {

bool make_room(Cord& cord, Fiber* fiber) {
    if (!cord.sched.queue.reserve(cord.counts.fibers + 1, fiber) || !cord.timers.reserve(cord.counts.fibers + 1))
        return false;
    uint32_t places = cord.sched.queue.capacity();
    cord.counts.room = places < cord.timers.capacity() ? places : cord.timers.capacity();
    if (creation_observer) cord.counts.room = 0; // so each fiber is made by the slow way
    return true;
}

} // namespace

int fiber_create_slowly(Cord& cord, Kind kind, Fiber** out) {
    KeepErrno keep;
    Fiber* fiber;
    if (fork_refused && !is_internal(kind)) return -EPERM;
    if (environment && environment->refuses(Resource::memory)) return -ENOMEM;
    int error = fibers.take(cord.free.fibers, &fiber);
    if (error) return error;
    if (!make_room(cord, fiber)) { // coverage: no memory
        fibers.end_use(fiber);
        fibers.give_back(cord.free.fibers, fiber);
        return -ENOMEM;
    }
    cord.counts.fibers++;
    fiber_begin(fiber, &cord, kind);
    count_fiber(cord, fiber, 1);
    if (CreationObserver observer = creation_observer) observer(fiber);
    *out = fiber;
    return 0;
}

int fiber_create_elsewhere(Cord& to, uint64_t id, Kind kind, Fiber** out) {
    KeepErrno keep;
    FreeSlots<Fiber> own; // a thread without a cord needs none for this
    FreeSlots<Fiber>& free = this_cord ? this_cord->free.fibers : own;
    Fiber* busy = nullptr;
    Fiber* fiber;
    int error;
    while ((error = fibers.take(free, &fiber)) == 0 && !remote_reserve(fiber)) {
        fiber->next_free = busy; // not usable for this until the requests to the slot's last fiber have arrived
        busy = fiber;
    }
    while (busy) {
        Fiber* next = busy->next_free;
        fibers.end_use(busy);
        fibers.give_back(free, busy);
        busy = next;
    }
    fibers.give_back_all(own);
    if (error) return error;
    fiber_begin(fiber, bound_for(&to), kind);
    fiber->received.bound_for_id = id;
    if (CreationObserver observer = creation_observer) observer(fiber);
    *out = fiber;
    return 0;
}

void fiber_create_undo(Fiber* fiber) {
    FreeSlots<Fiber> own;
    FreeSlots<Fiber>& free = this_cord ? this_cord->free.fibers : own;
    fibers.end_use(fiber);
    fiber->cord.store(nullptr, std::memory_order_release);
    remote_unreserve(fiber);
    fibers.give_back(free, fiber);
    fibers.give_back_all(own);
}

void fiber_attach(Cord& cord, Fiber* fiber) {
    bool meant = fiber->received.bound_for_id == CordTable::id_of(&cord);
    fiber->received.transferrer = 0;
    cord.counts.fibers++;
    if (!meant) { // it was made for the cord that had this record before, which ended while the fiber was on its way
        own_arg_free(cord, fiber);
        EndWait* joiners = joiners_elsewhere(fiber);
        fiber_free(cord, fiber);
        end_waits_complete(joiners, nullptr, -EOWNERDEAD);
        return;
    }
    count_fiber(cord, fiber, 1);
    if (cord.closing && !is_internal(fiber->life.kind)) {
        end_unrun(cord, fiber, FIBER_CANCELLED, 0);
    } else if (!make_room(cord, fiber)) { // coverage: no memory
        end_unrun(cord, fiber, nullptr, -EAGAIN);
    }
}

void arg_free(Cord& cord, void (*free_arg)(void*), void* arg) {
    KeepErrno keep;
    Fiber* before = cord.sched.current;
    // No fiber is current between two turns; the user's function needs one, so the main flow stands in.
    Fiber* as = before ? before : cord.main_flow.fiber;
    cord.sched.current = as;
    uint32_t depth = cord.no_switch.depth;
    uint32_t floor = cord.no_switch.floor;
    if (depth == 0) noswitch_entered();
    cord.no_switch.depth = cord.no_switch.floor = depth + 1;
    pending_update(cord, as);
    free_arg(arg);
    cord.no_switch.depth = depth;
    cord.no_switch.floor = floor;
    pending_update(cord, as);
    cord.sched.current = before;
}

void own_arg_free(Cord& cord, Fiber* fiber) {
    if (!fiber->frees_arg()) return;
    fiber->extras.flags &= uint8_t(~flag_free_arg);
    fiber->sched.state = State::running; // so that no call by free_arg starts or ends it
    arg_free(cord, fiber->received.free_arg, fiber->call.arg);
    if (PLANTED(argument_is_freed_twice)) arg_free(cord, fiber->received.free_arg, fiber->call.arg);
}

void args_free(Cord& cord) {
    for (bool any = true; any;) {
        any = false; // free_arg may make fibers
        fibers.each([&](Fiber* fiber) {
            if (fiber->cord.load(std::memory_order_relaxed) != &cord || !fiber->frees_arg()) return;
            State state = fiber->sched.state;
            bool unrun = state == State::created || state == State::scheduled || state == State::awaiting_stack;
            if (fiber->uses_stack() ? !unrun : state == State::dead) return;
            fiber->extras.flags &= uint8_t(~flag_free_arg);
            any = true;
            if (!fiber->uses_stack()) return cord.executor.ops->free_user(cord, fiber);
            arg_free(cord, fiber->received.free_arg, fiber->call.arg);
        });
    }
}

void end_unrun(Cord& cord, Fiber* fiber, void* result, int error) {
    own_arg_free(cord, fiber);
    record_end(cord, fiber);
    if (fiber->requests.asked_elsewhere) joiners_never_ran(fiber);
    fiber_finish(cord, fiber, result, error);
}

void detach(Cord& cord, Fiber* fiber) {
    fiber->life.detached = true;
    if (fiber->sched.state == State::dead) release(cord, fiber, joiners_elsewhere(fiber));
}

void joined_from_elsewhere(Cord& cord, Fiber* fiber) {
    if (fiber->sched.state != State::dead) return; // its end will tell them
    EndWait* joiners = joiners_elsewhere(fiber);
    if (any_joins(joiners)) return release(cord, fiber, joiners);
    end_waits_complete(joiners, nullptr, 0); // null, if the waiters have given up meanwhile
}

namespace {

// Ends the sections, locks, scopes and values that few fibers leave behind.
[[gnu::noinline]] void clear_up(Cord& cord, Fiber* fiber) {
    executor_leave(cord);
    cord.no_switch.depth = 0; // a section that the function left open ends with it
    if (fiber->extras.locks_held) cord.sync.holder_ended(cord, fiber); // children, which are awaited next, may want it
    scopes_end(cord, fiber);
    pending_update(cord, fiber);
    if (fiber->values.locals) {
        Scope shield;
        shield.record_only = true;
        scope_push(cord, fiber, &shield, never, FIBER_SCOPE_SHIELD);
        fiber->values.locals->ops->destroy(fiber);
        scopes_end(cord, fiber);
        cord.no_switch.depth = 0;
        if (fiber->extras.locks_held) cord.sync.holder_ended(cord, fiber); // locks that destructors have left locked
    }
    if (fiber->extras.tag_kind && cord.observer.ops) cord.observer.ops->exits(cord, fiber);
}

} // namespace

namespace {

[[gnu::noinline]] void tell_of_end(Cord& cord, Fiber* fiber) {
    record_end(cord, fiber);
    hooks::fiber_ended(cord, fiber);
}

void* call_exit(void*) { exit(0); }

} // namespace

void end_process(Cord& cord) {
    cord.main_flow.ends_process = false;
    Fiber* last;
    if (fiber_create(cord, Kind::internal, &last) < 0) exit(0);
    last->call.fn = call_exit;
    last->stack_class = cord.main_flow.last_class;
    last->life.detached = true;
    last->sched.state = State::scheduled;
    cord.sched.queue.push(last);
}

void wake_quiet_waits(Cord& cord) {
    while (QuietWait* wait = cord.shutdown.quiet_waits.pop_front()) wake(wait, 0);
}

int fiberrt_fiber_ended(Fiber* fiber, void* result) {
    Cord& cord = *this_cord;
    fiber->requests.ending = true;
    if (fiber->scopes || fiber->values.locals || cord.no_switch.depth || fiber->extras.any()) [[unlikely]]
        clear_up(cord, fiber);
    // fiber_exit inside a catch block: the exception is never released, but must not show in the next fiber.
    auto* exceptions = static_cast<char*>(cord.thread_state.exceptions);
    *reinterpret_cast<void**>(exceptions) = nullptr;
    *reinterpret_cast<uint32_t*>(exceptions + 8) = 0;

    Fiber* successor = nullptr;
    if (fiber->received.transferrer) [[unlikely]] {
        successor = waiting_transferrer(fiber);
        if (successor) {
            successor->transfer_value = result;
            successor->resume = 1;
            successor->sched.state = State::queued; // no longer transferring: the calls below must not touch it
        }
    }
    if (cord.hooked) [[unlikely]]
        tell_of_end(cord, fiber);
    stack_give_back(cord, fiber); // this function still runs on it; no fiber takes it before the next switch
    fiber_finish(cord, fiber, result, 0);
    return leave(cord, successor);
}

// The personality routine of a fiber's last frame. The C++ runtime calls it when an exception has found no handler in
// the whole fiber, or when the C library unwinds the fiber by force. After an exception the runtime then calls
// std::terminate, with the stack still intact.
extern "C" _Unwind_Reason_Code fiberrt_personality(int, _Unwind_Action actions, _Unwind_Exception_Class,
                                                   _Unwind_Exception*, _Unwind_Context*) {
    const Fiber* fiber = this_cord ? this_cord->sched.current : nullptr;
    bool forced = actions & _UA_FORCE_UNWIND;
    Report r(STDERR_FILENO, Report::unasked_ns);
    r.put(forced ? "fiberrt: pthread_exit or pthread_cancel, which is forbidden, inside fiber"
                 : "fiberrt: an exception left the function of fiber");
    r.name(fiber ? fiber->name : "?");
    r.put(" (id ");
    r.id(fiber ? fibers.id_of(fiber) : 0);
    r.put(")\n");
    r.end();
    if (forced) abort();
    return _URC_CONTINUE_UNWIND;
}

} // namespace fiberrt
