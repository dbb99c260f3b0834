// SPDX-License-Identifier: MIT OR Apache-2.0
// Fibers' creation, end and joins. fiber_begin to fiber_attach make a fiber, fiber_finish and end_unrun end it,
// fiber_free gives its slot back.
#pragma once

#include "base/list.h"
#include "core/cord.h"
#include "core/scheduler.h"

#include <errno.h>
#include <stdint.h>

namespace fiberrt {

// Adds `by`, which is 1 or -1, to the number of fibers that the cord's end waits for.
inline void count_fiber(Cord& cord, const Fiber* fiber, uint32_t by) {
    if (fiber->life.kind == Kind::keeps_cord) [[likely]] {
        cord.counts.live += by;
    } else if (fiber->life.kind == Kind::daemon) {
        cord.counts.daemons += by;
    } else if (fiber->life.kind == Kind::task_fiber && by != 1) [[unlikely]] {
        cord.work->ops->fiber_ended(cord, fiber);
    }
}

// Sets a new fiber's members; the caller sets fn and arg. cord: the value for Fiber::cord.
inline void fiber_begin(Fiber* fiber, Cord* cord, Kind kind) {
    fiber->stack_reserve = 0;
    fiber->sched.state = State::created;
    fiber->sched.pending = 0;
    fiber->sched.permit = false;
    fiber->transfer_value = nullptr;
    fiber->life.end_error = 0;
    fiber->life.detached = false;
    fiber->life.kind = kind;
    fiber->received.transferrer = 0;
    fiber->requests.cancelled = false;
    fiber->requests.interrupt_pending = false;
    fiber->extras.flags = 0;
    fiber->requests.ending = false;
    fiber->requests.asked_elsewhere = false;
    fiber->extras.tag_kind = 0;
    fiber->extras.locks_held = 0;
    if (fiber->name[0]) [[unlikely]] {
        Locked locked(fiber->remote.lock); // another thread may still be reading it
        fiber->name[0] = '\0';
    }
    // Release: a thread that finds the cord in a handle's slot may send to it.
    fiber->cord.store(cord, std::memory_order_release);
}

// Makes a fiber, with its places in the run queue and the timers. 0, -ENOMEM, -EAGAIN.
int fiber_create_slowly(Cord& cord, Kind kind, Fiber** out);
inline int fiber_create(Cord& cord, Kind kind, Fiber** out) {
    if (!cord.free.fibers.head || cord.counts.fibers >= cord.counts.room) [[unlikely]]
        return fiber_create_slowly(cord, kind, out);
    Fiber* fiber = fibers.take_free(cord.free.fibers);
    cord.counts.fibers++;
    fiber_begin(fiber, &cord, kind);
    count_fiber(cord, fiber, 1);
    *out = fiber;
    return 0;
}

// Makes a fiber for another cord, whose handle is id, from any thread. The caller sets fn and arg, and hands it over by
// send_new. 0, -ENOMEM, -EAGAIN.
int fiber_create_elsewhere(Cord& to, uint64_t id, Kind kind, Fiber** out);
void fiber_create_undo(Fiber* fiber); // frees one that could not be handed over

// Takes over a fiber that another thread made for this cord. If the cord cannot run it, the fiber ends.
void fiber_attach(Cord& cord, Fiber* fiber);

// Like take_remote_joiners, but quick if no other cord has ever asked to join the fiber.
inline EndWait* joiners_elsewhere(Fiber* fiber) {
    return fiber->requests.asked_elsewhere ? take_remote_joiners(fiber) : nullptr;
}

// Like joiners_elsewhere, for a fiber that has ended. gone: the caller gives the slot back next, with or without
// joiners.
EndWait* dead_joiners_elsewhere_slowly(Cord& cord, Fiber* fiber, bool gone);
inline EndWait* dead_joiners_elsewhere(Cord& cord, Fiber* fiber, bool gone) {
    return fiber->requests.asked_elsewhere ? dead_joiners_elsewhere_slowly(cord, fiber, gone) : nullptr;
}

// Gives a fiber's slot back; the fiber's handle is stale from here on.
inline void fiber_free(Cord& cord, Fiber* fiber) {
    fibers.end_use(fiber);
    // Release: a thread that finds no cord here also finds the handle stale.
    fiber->cord.store(nullptr, std::memory_order_release);
    cord.counts.fibers--;
    fibers.give_back(cord.free.fibers, fiber);
}

// Calls the user's function for the argument of a fiber or a task that never runs, in a no-switch section. The cord's
// thread may be anywhere, also in a poll, on the stack of a fiber that is parked or has ended; so the function must not
// switch.
void arg_free(Cord& cord, void (*free_arg)(void*), void* arg);

// Calls arg_free for a fiber that is in no queue and about to end without having run, if it has a free_arg. Joiners are
// woken after this, so a joiner may free the object that the argument points to. The fiber counts as running meanwhile,
// so free_arg can neither start nor end it.
void own_arg_free(Cord& cord, Fiber* fiber);

// Calls arg_free for all such fibers that are left when the thread ends.
void args_free(Cord& cord);

// Ends a fiber whose function has returned, or that will never run: wakes the joiners. The slot remains only if no
// joiner took the end and the fiber is not detached.
void fiber_finish(Cord& cord, Fiber* fiber, void* result, int error);

// Ends a fiber that never ran and is in no queue.
void end_unrun(Cord& cord, Fiber* fiber, void* result, int error);

// Gives up the right to join a fiber, which was not detached before.
void detach(Cord& cord, Fiber* fiber);

// Receives the request of fibers on other cords that wait for this fiber's end.
void joined_from_elsewhere(Cord& cord, Fiber* fiber);

void stop_join(Wait* wait, int reason);

// The wait of a fiber for another's end; linked in the other's joiners. begin() and ended() are the parts of a join
// before and after its fiber waits, for fibers with a stack and without.
struct JoinWait : Link, Wait {
    Fiber* target;
    void* target_result = nullptr;
    bool joins = true; // false: the end stays to be joined

    void begin(Fiber* joined) {
        target = joined;
        stop = stop_join;
        on_deadline = -ETIMEDOUT;
        what = WaitFor::fiber;
        joined->joiners.push_back(this);
    }
    int ended(void** out) const {
        if (!result && out) *out = target_result;
        return int(result);
    }
};

// Joins a fiber that has ended. Returns its end_error, and stores its result.
inline int join_dead(Cord& cord, Fiber* target, void** result) {
    int error = target->life.end_error;
    void* value = target->call.result;
    if (!error && result) *result = value;
    EndWait* elsewhere = dead_joiners_elsewhere(cord, target, true); // joiners of other cords that asked before us
    fiber_free(cord, target);
    if (elsewhere) [[unlikely]]
        end_waits_complete(elsewhere, value, error);
    return error;
}

// The result of a wait that leaves the fiber to be joined: only a joiner learns of the fiber's end_error.
inline int awaited(int result) { return result == -EAGAIN || result == -EINVAL ? 0 : result; }

// Waits for a fiber's end, and leaves the fiber to be joined. 0, also after an end by error; or why the wait ended
// early.
int await_end(Cord& cord, Fiber* target, int64_t deadline);

// Waits for a fiber's end. 0 and the result; or why not. (Always inlined: gcc decides by what else is in a file.)
[[gnu::always_inline]] inline int join(Cord& cord, Fiber* target, void** result, int64_t deadline) {
    if (target->sched.state == State::dead) return join_dead(cord, target, result);
    JoinWait joiner;
    joiner.begin(target);
    park(cord, joiner, deadline);
    return joiner.ended(result);
}

// The wait of a fiber until other fibers of the cord have ended; each end wakes it, to count again.
struct QuietWait : Link, Wait {
    Cord* cord;
};
void wake_quiet_waits(Cord& cord); // wakes these waits

// Ends the process, after the last fiber of a cord without a main flow has ended.
void end_process(Cord& cord);

// Ends the current fiber, whose function has returned: closes its scopes, calls destructors, wakes the joiners, and
// gives the thread away for good. (arch/ jumps here, and the function does not return; see leave().)
extern "C" int fiberrt_fiber_ended(Fiber* fiber, void* result);

} // namespace fiberrt
