// SPDX-License-Identifier: MIT OR Apache-2.0
// Cancel, interrupt, scopes.
#include "api/api.h"
#include "base/keep_errno.h"
#include "core/mail.h"

using namespace fiberrt;
using api::elsewhere;
using api::find;

namespace {

// A scope that the calling fiber opened, and which is about to change. 0, -EINVAL, -ESRCH, -EPERM.
int own_scope(fiber_scope_t handle, Scope** out) {
    int error = scopes.resolve(handle.id, out);
    if (error) return error;
    const Cord* cord = cord_if_any();
    bool own = cord && (*out)->fiber.load(std::memory_order_relaxed) == cord->current;
    return own && cord_here() ? 0 : -EPERM;
}

} // namespace

int fiber_cancel(fiber_t handle, void* reason) {
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    if (where == elsewhere) return cancel_elsewhere(fiber, id_generation(handle.id), reason);
    if (fiber->state == State::dead) return 0;
    note_reason(fiber, reason);
    cancel(*this_cord, fiber);
    return 0;
}

int fiber_cancelled(void** reason) {
    Cord* cord = api::cord_to_look_at();
    if (!cord) return no_cord();
    Fiber* me = cord->current;
    if (me->cancelled && reason) *reason = reason_of(me);
    return me->cancelled;
}

int fiber_interrupt(fiber_t handle, void* value) {
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    if (where == elsewhere) return interrupt_elsewhere(fiber, id_generation(handle.id), value);
    if (fiber->state == State::dead) return 0;
    bool returning_with_one = fiber->state == State::queued && fiber->resume == -EINTR;
    if (returning_with_one || !note_interrupt(fiber, value)) return -EBUSY;
    interrupt(*this_cord, fiber);
    return 0;
}

int fiber_interrupted(void** value) {
    if (!value) return -EINVAL;
    Cord* cord = api::cord_to_look_at();
    if (!cord) return no_cord();
    const Fiber* me = cord->current;
    if (me->was_interrupted) *value = me->interrupted_value;
    return me->was_interrupted;
}

int fiber_scope_open(fiber_scope_t* out, int64_t timeout_ns, unsigned flags) {
    if (!out || timeout_ns < 0 || (flags & ~FIBER_SCOPE_SHIELD)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    KeepErrno keep;
    Scope* scope;
    int error = scopes.take(cord->free_scopes, &scope);
    if (error) return error;
    scope->record_only = false;
    scope_push(*cord, cord->current, scope, deadline_after(*cord, timeout_ns), flags & FIBER_SCOPE_SHIELD);
    out->id = scopes.id_of(scope);
    return 0;
}

int fiber_scope_set_timeout(fiber_scope_t handle, int64_t timeout_ns) {
    if (timeout_ns < 0) return -EINVAL;
    Scope* scope;
    int error = own_scope(handle, &scope);
    if (error) return error;
    scope_move_deadline(*this_cord, scope, deadline_after(*this_cord, timeout_ns), timeout_ns > 0);
    return 0;
}

int fiber_scope_close(fiber_scope_t handle, int64_t* failure) {
    Scope* scope;
    int error = own_scope(handle, &scope);
    if (error) return error;
    Fiber* me = this_cord->current;
    while (me->scopes != scope) scope_pop(*this_cord, me);
    int verdict = scope->fired ? -ETIMEDOUT : 0;
    scope_pop(*this_cord, me);
    if (failure) *failure = 0;
    return verdict;
}

fiber_timeout_block_t fiber_timeout_block_open(int64_t timeout_ns, int* verdict) {
    fiber_timeout_block_t block = {{0}, verdict, 0};
    int error = fiber_scope_open(&block.scope, timeout_ns, 0);
    block.once = error == 0;
    if (error && verdict) *verdict = error;
    return block;
}

void fiber_timeout_block_close(fiber_timeout_block_t* block) {
    if (!block->scope.id) return;
    int verdict = fiber_scope_close(block->scope, nullptr);
    if (block->verdict) *block->verdict = verdict;
}

FIBERRT_EXPORT(fiber_cancel);
FIBERRT_EXPORT(fiber_cancelled);
FIBERRT_EXPORT(fiber_interrupt);
FIBERRT_EXPORT(fiber_interrupted);
FIBERRT_EXPORT(fiber_scope_open);
FIBERRT_EXPORT(fiber_scope_set_timeout);
FIBERRT_EXPORT(fiber_scope_close);
FIBERRT_EXPORT(fiber_timeout_block_open);
FIBERRT_EXPORT(fiber_timeout_block_close);
