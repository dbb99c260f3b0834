// SPDX-License-Identifier: MIT OR Apache-2.0
// How fibers come and go: creation, death, joining.
#pragma once

#include "base/list.h"
#include "core/cord.h"
#include "core/relay.h"

#include <errno.h>
#include <stdint.h>

namespace fiberrt {

// Counts a fiber in or out of those that its cord's end waits for.
inline void count(Cord& cord, const Fiber* fiber, uint32_t by) {
    if (fiber->life.kind == Kind::keeps_cord) [[likely]] {
        cord.counts.live += by;
    } else if (fiber->life.kind == Kind::daemon) {
        cord.counts.daemons += by;
    } else if (fiber->life.kind == Kind::task_fiber && by != 1) [[unlikely]] {
        cord.work->ops->fiber_ended(cord, fiber);
    }
}

// Sets what is a fiber's own from its beginning; fn and arg are the caller's to set. cord: what Fiber::cord is to be.
inline void fiber_begin(Fiber* fiber, Cord* cord, Kind kind) {
    fiber->sched.state = State::created;
    fiber->sched.attention = 0;
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
    fiber->extras.held = 0;
    if (fiber->name[0]) [[unlikely]] {
        Locked locked(fiber->mail.lock); // somebody may still be reading it
        fiber->name[0] = '\0';
    }
    // Release: whoever finds the cord in a handle's slot may send to it.
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
    count(cord, fiber, 1);
    *out = fiber;
    return 0;
}

// Makes a fiber for another cord, whose handle is id, from any thread; send_new hands it over. fn and arg are set by
// the caller. 0, -ENOMEM, -EAGAIN.
int fiber_create_elsewhere(Cord& to, uint64_t id, Kind kind, Fiber** out);
void fiber_create_undo(Fiber* fiber); // it could not be handed over

// Takes over a fiber that was made elsewhere. If that cannot be, the fiber has ended.
void adopt(Cord& cord, Fiber* fiber);

// The same as joiners_in_mail, and quick where no other cord has ever asked to join it.
inline EndWait* joiners_elsewhere(Fiber* fiber) {
    return fiber->requests.asked_elsewhere ? joiners_in_mail(fiber) : nullptr;
}

// The same of one that has ended. gone: its slot is given back next, also if there were none of those.
EndWait* leave_elsewhere_slowly(Cord& cord, Fiber* fiber, bool gone);
inline EndWait* leave_elsewhere(Cord& cord, Fiber* fiber, bool gone) {
    return fiber->requests.asked_elsewhere ? leave_elsewhere_slowly(cord, fiber, gone) : nullptr;
}

// Gives a fiber's slot back; its handle is stale.
inline void fiber_free(Cord& cord, Fiber* fiber) {
    fibers.end_use(fiber);
    // Release: who sees that it is nobody's sees that the handle is stale.
    fiber->cord.store(nullptr, std::memory_order_release);
    cord.counts.fibers--;
    fibers.give_back(cord.free.fibers, fiber);
}

// Calls the user's function for the argument of a fiber or a task that never runs, in a no-switch section, from wherever
// the cord's thread is: in a poll too, on the stack of a fiber that is parked or has ended.
void arg_free(Cord& cord, void (*free_arg)(void*), void* arg);

// The same for a fiber that is in no queue and about to end, if it wants that. Its end is told after this: who waits
// for that may free what the argument refers to.
void own_arg_free(Cord& cord, Fiber* fiber);

// The same for all that are left, since the thread leaves.
void args_free(Cord& cord);

// Its function has returned, or it will never run: tells the joiners. Its slot remains only if nobody was told.
void bury(Cord& cord, Fiber* fiber, void* result, int error);

// A fiber that never ran, and is in no queue, ends.
void end_unrun(Cord& cord, Fiber* fiber, void* result, int error);

// Nobody will join it. It was not detached before.
void detach(Cord& cord, Fiber* fiber);

// Some on other cords wait for its end: their request has come.
void joined_from_elsewhere(Cord& cord, Fiber* fiber);

void stop_join(Wait* wait, int reason);

// One fiber that waits for another's end; linked in the other's joiners. What a join does before and after its fiber
// waits, for fibers with a stack and without.
struct JoinWait : Link, Wait {
    Fiber* target;
    void* target_result = nullptr;
    bool takes = true; // false: the end stays to be joined

    void begin(Fiber* whom) {
        target = whom;
        stop = stop_join;
        on_deadline = -ETIMEDOUT;
        what = WaitFor::fiber;
        whom->joiners.push_back(this);
    }
    int ended(void** out) const {
        if (!result && out) *out = target_result;
        return int(result);
    }
};

// Joins a fiber that has ended. How it ended, and its result.
inline int join_dead(Cord& cord, Fiber* target, void** result) {
    int error = target->life.end_error;
    void* value = target->call.result;
    if (!error && result) *result = value;
    EndWait* elsewhere = leave_elsewhere(cord, target, true); // joiners of other cords that asked before us
    fiber_free(cord, target);
    if (elsewhere) [[unlikely]]
        end_waits_complete(elsewhere, value, error);
    return error;
}

// The result of a wait for an end that is left to be joined: how the fiber has ended is told to the joiner alone.
inline int awaited(int result) { return result == -EAGAIN || result == -EINVAL ? 0 : result; }

// Waits for a fiber's end, and leaves it to be joined. 0, however it has ended; or why the wait ended early.
int await_end(Cord& cord, Fiber* target, int64_t deadline);

// Waits for a fiber's end. 0 and the result; or why not. (Always inlined: gcc decides by what else is in a file.)
[[gnu::always_inline]] inline int join(Cord& cord, Fiber* target, void** result, int64_t deadline) {
    if (target->sched.state == State::dead) return join_dead(cord, target, result);
    JoinWait joiner;
    joiner.begin(target);
    park(cord, joiner, deadline);
    return joiner.ended(result);
}

// A fiber that waits until others have ended; it looks again whenever one has.
struct QuietWait : Link, Wait {
    Cord* cord;
};
void quieter(Cord& cord); // wakes these, to look again

// The last fiber of a cord without a main flow has ended.
void end_process(Cord& cord);

// The current fiber's function has returned: runs what must run, wakes who waits, gives the thread away for good.
// (It is jumped to, and does not return; see leave().)
extern "C" int fiberrt_fiber_ended(Fiber* fiber, void* result);

} // namespace fiberrt
