// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes, and the fiber's timer and pending bits that follow from them.
// fuzz: switch 65 %, waiting 80 %
#include "core/scope.h"

#include "base/keep_errno.h"
#include "base/planted.h"
#include "core/cord.h"
#include "core/noswitch.h"
#include "core/remote_requests.h"
#include "core/scheduler.h"
#include "core/scope_open.h"

#include <initializer_list>

namespace fiberrt {

constinit SlotTable<Scope, Tag::scope> scopes;

namespace {

// The earliest deadline of the open scopes that count and have not fired.
int64_t scope_deadline(const Fiber* fiber) {
    int64_t deadline = never;
    each_counting_scope(fiber->scopes, [&](const Scope* s) {
        if (!(s->stopped & pending_timeout) && s->deadline < deadline) deadline = s->deadline;
    });
    return deadline;
}

// Sets the fiber's one timer to the earliest deadline that counts.
void timer_update(Cord& cord, Fiber* fiber) {
    int64_t deadline = scope_deadline(fiber);
    if (fiber->timeout.deadline < deadline) deadline = fiber->timeout.deadline;
    if (deadline != fiber->timeout.timer.deadline) cord.timers.set(&fiber->timeout.timer, deadline);
}

} // namespace

void wait_deadline_set(Cord& cord, Fiber* fiber, int64_t deadline) {
    fiber->timeout.deadline = deadline;
    timer_update(cord, fiber);
}

void pending_update(Cord& cord, Fiber* fiber) {
    uint8_t pending = 0;
    uint8_t unshielded = pending_cancel | pending_interrupt | pending_timeout;
    for (const Scope* s = fiber->scopes; s && unshielded; s = s->outer) {
        pending |= s->stopped & unshielded;
        unshielded &= uint8_t(~s->shield);
    }
    if (fiber->requests.cancelled) pending |= pending_cancel & unshielded;
    if (PLANTED(shield_lets_cancels_through) && fiber->requests.cancelled) pending |= pending_cancel;
    if (fiber->requests.interrupt_pending) pending |= pending_interrupt & unshielded;
    if ((cord.no_switch.depth && fiber == cord.sched.current) || !fiber->uses_stack()) pending |= pending_noswitch;
    fiber->sched.pending = pending;
    timer_update(cord, fiber);
}

namespace {

uint8_t shield_of(uint8_t flags) {
    if (flags & FIBER_SCOPE_SHIELD) return pending_cancel | pending_interrupt | pending_timeout;
    return flags & FIBER_SCOPE_SHIELD_CANCEL ? pending_cancel : 0;
}

} // namespace

void scope_push(Cord& cord, Fiber* fiber, Scope* scope, int64_t deadline, uint8_t flags) {
    scope->outer = fiber->scopes;
    scope->fiber.store(fiber, std::memory_order_relaxed);
    scope->deadline = deadline;
    scope->stopped = 0;
    scope->flags = flags;
    scope->shield = shield_of(flags);
    scope->has_children = false;
    fiber->scopes = scope;
    if (scope->shield) return pending_update(cord, fiber);
    if (deadline < fiber->timeout.timer.deadline)
        cord.timers.set(&fiber->timeout.timer, deadline); // nothing else has changed
}

namespace {

void unlink_innermost(Cord& cord, Fiber* fiber, Scope* scope) {
    fiber->scopes = scope->outer;
    if (scope->record_only) return;
    scopes.end_use(scope);
    scopes.give_back(cord.free.scopes, scope);
}

} // namespace

void scope_pop(Cord& cord, Fiber* fiber) {
    Scope* scope = fiber->scopes;
    if (scope->has_children) children_discard(cord, scope);
    unlink_innermost(cord, fiber, scope);
    pending_update(cord, fiber);
}

void scope_pop_plain(Cord& cord, Fiber* fiber) {
    Scope* scope = fiber->scopes;
    bool earliest = scope->deadline == fiber->timeout.timer.deadline && scope->deadline != never;
    unlink_innermost(cord, fiber, scope);
    if (earliest) timer_update(cord, fiber);
}

void scope_move_deadline(Cord& cord, Scope* scope, int64_t deadline, bool ahead) {
    scope->deadline = deadline;
    if (ahead) scope->stopped &= uint8_t(~pending_timeout);
    pending_update(cord, scope->fiber.load(std::memory_order_relaxed));
}

int scope_close(Cord& cord, Fiber* fiber, int64_t* failure) {
    Scope* scope = fiber->scopes;
    *failure = 0;
    if (scope->has_children) [[unlikely]] {
        if (int error = children_await(cord, scope, !(fiber->sched.pending & pending_noswitch))) return error;
        *failure = scope->children.failure;
    }
    uint8_t stopped = scope->stopped;
    scope_pop(cord, fiber);
    return stopped & pending_cancel ? -ECANCELED : stopped ? -ETIMEDOUT : 0;
}

int scope_next(Cord& cord, Scope* scope, uint64_t* child, int64_t* result) {
    Fiber* me = cord.sched.current;
    if (me->sched.pending) return check_pending(cord, me);
    int taken = children_take(cord, scope, child, result);
    if (taken == -EAGAIN) return children_next(cord, scope, child, result);
    if (taken > 0) charge_and_poll(cord);
    return taken;
}

void scopes_end(Cord& cord, Fiber* fiber) {
    // All before the first wait: a child of an inner scope may wait for a child of an outer scope.
    for (Scope* s = fiber->scopes; s; s = s->outer) {
        if (s->has_children) children_cancel(cord, s, nullptr);
    }
    while (Scope* scope = fiber->scopes) {
        if (scope->has_children) {
            children_cancel(cord, scope, nullptr); // it may have got its first child during a wait
            children_await(cord, scope, true);     // after a deadlock the children go on without the scope
        }
        scope_pop(cord, fiber);
    }
}

void scope_cancel(Cord& cord, Fiber* fiber, Scope* scope, void* reason) {
    if (scope->stopped & pending_cancel) return;
    scope->stopped |= pending_cancel;
    scope->reason = reason;
    pending_update(cord, fiber);
    if (fiber->sched.pending & pending_cancel) stop(cord, fiber, -ECANCELED);
    scopes_stop_children(cord, fiber);
}

int scope_cancel_elsewhere(Scope* scope, uint32_t generation, void* reason) {
    Fiber* owner;
    {
        Locked locked(scope->lock);
        if (scope->generation.load(std::memory_order_relaxed) != generation) return -ESRCH;
        if (scope->asked_for == generation) return 0;
        scope->asked_for = generation;
        scope->asked_reason = reason;
        owner = scope->fiber.load(std::memory_order_relaxed);
    }
    // The generation of the fiber that has the slot by now. If the owner has closed the scope meanwhile, scopes_asked()
    // finds no scope of the generation asked for.
    uint32_t owners = owner ? owner->generation.load(std::memory_order_relaxed) : 0;
    return owners & 1 ? scopes_elsewhere(owner, owners) : -ESRCH;
}

void scopes_asked(Cord& cord, Fiber* fiber) {
    for (Scope* s = fiber->scopes; s; s = s->outer) {
        if (s->record_only) continue;
        void* reason;
        {
            Locked locked(s->lock);
            if (s->asked_for != s->generation.load(std::memory_order_relaxed)) continue;
            reason = s->asked_reason;
        }
        scope_cancel(cord, fiber, s, reason);
    }
}

bool scope_is_of(const Scope* scope, const Fiber* fiber) {
    const Scope* s = fiber->scopes;
    while (s && s != scope) s = s->outer;
    return s;
}

bool scope_stopped(const Fiber* fiber, const Scope* scope, void** reason) {
    uint8_t unshielded = pending_cancel | pending_timeout;
    *reason = nullptr;
    for (const Scope* s = scope; s; s = s->outer) {
        uint8_t stopped = s->stopped & unshielded;
        if (stopped & pending_cancel) *reason = s->reason;
        if (stopped) return true;
        unshielded &= uint8_t(~s->shield);
    }
    if (!fiber->requests.cancelled || !(unshielded & pending_cancel)) return false;
    *reason = reason_of(const_cast<Fiber*>(fiber));
    return true;
}

namespace {

void stop_children_of(Cord& cord, Scope* from, const Scope* end, void* reason) {
    for (Scope* s = from; s != end; s = s->outer) {
        if (s->has_children) children_cancel(cord, s, reason);
    }
}

} // namespace

void scopes_stop_children(Cord& cord, Fiber* fiber) {
    for (uint8_t kind : {pending_cancel, pending_timeout}) {
        Scope* from = fiber->scopes; // the innermost scope that no shield so far covers against this kind
        for (Scope* s = from; s; s = s->outer) {
            void* reason = s->stopped & pending_cancel ? s->reason : nullptr;
            if (s->stopped & kind) stop_children_of(cord, from, s->outer, reason);
            if ((s->stopped | s->shield) & kind) from = s->outer;
        }
        if (kind == pending_cancel && fiber->requests.cancelled)
            stop_children_of(cord, from, nullptr, reason_of(fiber));
    }
}

namespace {

// Whether closing the scopes up to this one would wait, and the fiber may not. The caller asks before it closes the
// first scope. Another cord may still add a child meanwhile.
bool may_not_wait(const Fiber* me, const Scope* scope) {
    if (!(me->sched.pending & pending_noswitch)) return false;
    for (Scope* s = me->scopes;; s = s->outer) {
        if (s->has_children && children_left(s)) return noswitch_refuses(me);
        if (s == scope) return false;
    }
}

} // namespace

int scope_take_slowly(Cord& cord, Scope** out) {
    KeepErrno keep;
    return scopes.take(cord.free.scopes, out);
}

int scopes_close(Cord& cord, Scope* scope, int64_t* failure) {
    Fiber* me = cord.sched.current;
    if (me->sched.pending && may_not_wait(me, scope)) return -EPERM;
    for (;;) {
        bool last = me->scopes == scope;
        int64_t value;
        int verdict = scope_close(cord, me, &value);
        if (verdict == -EDEADLK || verdict == -EPERM) return verdict;
        if (!last) continue;
        if (failure) *failure = value;
        return verdict;
    }
}

} // namespace fiberrt
