// SPDX-License-Identifier: MIT OR Apache-2.0
// How fibers come and go: creation, death, joining.
#include "core/life.h"

#include "base/keep_errno.h"
#include "core/hooks.h"
#include "core/locals.h"
#include "core/relay.h"

#include <errno.h>
#include <unistd.h>
#include <unwind.h>
#include <stdio.h>
#include <stdlib.h>

namespace fiberrt {

constinit SlotTable<Fiber, Tag::fiber> fibers;

namespace {

// One fiber that waits for another's end; linked in the other's joiners.
struct JoinWait : Link, Wait {
    void* target_result = nullptr;
};

void stop_join(Wait* wait, int reason) {
    static_cast<JoinWait*>(wait)->unlink();
    wake(wait, reason);
}

// Its function has returned, or it will never run: tells the joiners. Its slot remains only if nobody was told.
void bury(Cord& cord, Fiber* fiber, void* result, int error) {
    fiber->state = State::dead;
    fiber->sp = nullptr;
    fiber->result = result;
    fiber->end_error = int8_t(error);
    cord.timers.remove(&fiber->timer);
    bool told = fiber->detached;
    while (Link* link = fiber->joiners.pop_front()) {
        auto* joiner = static_cast<JoinWait*>(link);
        joiner->target_result = result;
        wake(joiner, error);
        told = true;
    }
    if (told) fiber_free(cord, fiber);
}

// The fiber that last transferred to this one, if it still waits for it.
Fiber* heir_of(Fiber* fiber) {
    Fiber* heir;
    if (!fiber->transferrer || fibers.resolve(fiber->transferrer, &heir) < 0) return nullptr;
    bool waits = heir->state == State::transferring && heir->transfer_to == fibers.id_of(fiber);
    return waits ? heir : nullptr;
}

} // namespace

int fiber_create(Cord& cord, Fiber** out) {
    KeepErrno keep;
    Fiber* fiber;
    int error = fibers.take(cord.free_fibers, &fiber);
    if (error) return error;
    if (!cord.queue.reserve(cord.fiber_count + 1, fiber) || !cord.timers.reserve(cord.fiber_count + 1)) {
        fibers.give_back(cord.free_fibers, fiber);
        return -ENOMEM;
    }
    cord.fiber_count++;
    fiber->sp = nullptr;
    fiber->resume = 0;
    fiber->exceptions_saved = false;
    fiber->state = State::created;
    fiber->attention = 0;
    fiber->permit = false;
    // Relaxed: other threads compare it with their own cord only, and follow it never.
    fiber->cord.store(&cord, std::memory_order_relaxed);
    fiber->wait = nullptr;
    fiber->transfer_value = nullptr;
    fiber->stack_low = nullptr;
    fiber->timer.init();
    fiber->end_error = 0;
    fiber->detached = false;
    fiber->main_flow = false;
    fiber->cancelled = false;
    fiber->interrupt_pending = false;
    fiber->was_interrupted = false;
    fiber->ending = false;
    fiber->wait_deadline = never;
    fiber->scope_deadline = never;
    fiber->scopes = nullptr;
    fiber->locals = nullptr;
    fiber->transferrer = 0; // and fn and arg are the caller's to set
    fiber->transfer_to = 0;
    fiber->tsan_fiber = nullptr;
    fiber->name[0] = '\0';
    *out = fiber;
    return 0;
}

void fiber_free(Cord& cord, Fiber* fiber) {
    fiber->cord.store(nullptr, std::memory_order_relaxed);
    cord.fiber_count--;
    fibers.give_back(cord.free_fibers, fiber);
}

void end_unrun(Cord& cord, Fiber* fiber, void* result, int error) { bury(cord, fiber, result, error); }

int join(Cord& cord, Fiber* target, void** result, int64_t deadline) {
    if (target->state == State::dead) {
        int error = target->end_error;
        if (!error && result) *result = target->result;
        fiber_free(cord, target);
        return error;
    }
    JoinWait joiner;
    joiner.stop = stop_join;
    joiner.on_deadline = -ETIMEDOUT;
    target->joiners.push_back(&joiner);
    int error = int(park(cord, joiner, deadline));
    if (!error && result) *result = joiner.target_result;
    return error;
}

void fiberrt_fiber_ended(Fiber* fiber, void* result) {
    Cord& cord = *this_cord;
    fiber->ending = true;
    cord.noswitch_depth = 0; // a section that the function left open ends with it
    while (fiber->scopes) scope_pop(cord, fiber);
    attention_update(cord, fiber);
    if (fiber->locals) {
        Scope shield;
        shield.record_only = true;
        scope_push(cord, fiber, &shield, never, true);
        locals_destroy(fiber);
        while (fiber->scopes) scope_pop(cord, fiber);
        cord.noswitch_depth = 0;
    }
    // fiber_exit inside a catch block: the exception is never released, but must not show in the next fiber.
    auto* exceptions = static_cast<char*>(cord.exceptions);
    *reinterpret_cast<void**>(exceptions) = nullptr;
    *reinterpret_cast<uint32_t*>(exceptions + 8) = 0;

    Fiber* heir = heir_of(fiber);
    if (heir) {
        heir->transfer_value = result;
        heir->resume = 1;
    }
    cord.tsan_dead = fiber->tsan_fiber;
    stack_give_back(cord, fiber); // we go on running on it; nobody else does before the next switch
    bury(cord, fiber, result, 0);
    leave(cord, heir);
}

// What the C++ runtime asks when an exception has found no handler in the whole fiber, or when the C library unwinds the
// fiber by force. It is the last frame; what follows is std::terminate, with the stack still intact.
extern "C" _Unwind_Reason_Code fiberrt_personality(int, _Unwind_Action actions, _Unwind_Exception_Class,
                                                   _Unwind_Exception*, _Unwind_Context*) {
    const Fiber* fiber = this_cord ? this_cord->current : nullptr;
    bool forced = actions & _UA_FORCE_UNWIND;
    char line[160];
    int length = snprintf(line, sizeof line, "fiberrt: %s fiber \"%s\" (id %#llx)\n",
                          forced ? "pthread_exit or pthread_cancel, which is forbidden, inside"
                                 : "an exception left the function of",
                          fiber ? fiber->name : "?", (unsigned long long)(fiber ? fibers.id_of(fiber) : 0));
    if (write(STDERR_FILENO, line, size_t(length)) < 0 || forced) abort();
    return _URC_CONTINUE_UNWIND;
}

} // namespace fiberrt
