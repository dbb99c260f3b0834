// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_scope_...: scopes and their children, and the blocks of FIBER_WITH_TIMEOUT.
// fuzz: waiting 80 %
#include "api/api.h"
#include "core/attr.h"
#include "core/children.h"
#include "core/remote_requests.h"
#include "core/scope.h"
#include "core/scope_open.h"
#include "core/spawn_child.h"
#include "pool/spawn_task.h"

using namespace fiberrt;

namespace {

int spawn(fiber_scope_t scope, fiber_t* out, const fiber_attr& attr, int64_t (*fn)(void*), void* arg) {
    if (!fn) return -EINVAL;
    if (attr.pool) return out || attr.cord ? -EINVAL : spawn_task(scope, attr, fn, arg);
    return spawn_child(scope, out, attr, fn, arg);
}

// Closes a scope that is not the innermost, has children, or has been stopped.
int close_slowly(fiber_scope_t handle, int64_t* failure) {
    Scope* scope;
    int error = own_scope(handle, &scope);
    return error ? error : scopes_close(*this_cord, scope, failure);
}

constexpr unsigned known_flags =
    FIBER_SCOPE_SHIELD | FIBER_SCOPE_COLLECT | FIBER_SCOPE_FIRST | FIBER_SCOPE_SHIELD_CANCEL;

} // namespace

int fiber_scope_open(fiber_scope_t* out, int64_t timeout_ns, unsigned flags) {
    if (!out || timeout_ns < 0 || (flags & ~known_flags)) return -EINVAL;
    if ((flags & FIBER_SCOPE_COLLECT) && (flags & FIBER_SCOPE_FIRST)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Scope* scope;
    int error = scope_open(*cord, timeout_ns, flags, &scope);
    if (!error) out->id = scopes.id_of(scope);
    return error;
}

int fiber_scope_spawn(fiber_scope_t scope, fiber_t* out, int64_t (*fn)(void*), void* arg) {
    return spawn(scope, out, fiber_attr(), fn, arg);
}

int fiber_scope_spawn_attr(fiber_scope_t scope, fiber_t* out, const fiber_attr_t* attr, int64_t (*fn)(void*),
                           void* arg) {
    return spawn(scope, out, attr ? *attr : fiber_attr(), fn, arg);
}

int fiber_scope_next(fiber_scope_t handle, fiber_t* child, int64_t* result) {
    Scope* scope;
    int error = own_scope(handle, &scope);
    if (error) return error;
    uint64_t id = 0;
    int64_t value = 0;
    int found = scope_next(*this_cord, scope, &id, &value);
    if (found <= 0) return found;
    if (child) child->id = id;
    if (result) *result = value;
    return found;
}

int fiber_scope_cancel(fiber_scope_t handle, void* reason) {
    Scope* scope;
    int error = scopes.resolve(handle.id, &scope);
    if (error) return error;
    Cord* cord = this_cord;
    Fiber* owner = scope->fiber.load(std::memory_order_relaxed);
    bool here = cord && owner && owner->cord.load(std::memory_order_relaxed) == cord && scope_is_of(scope, owner);
    if (!here) return scope_cancel_elsewhere(scope, id_generation(handle.id), reason);
    scope_cancel(*cord, owner, scope, reason);
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
    Cord* cord = this_cord;
    bool innermost = cord && scopes.resolve(handle.id, &scope) == 0 && cord->sched.current->scopes == scope;
    if (!innermost || !scope->plain()) [[unlikely]]
        return close_slowly(handle, failure);
    scope_pop_plain(*cord, cord->sched.current);
    if (failure) *failure = 0;
    return 0;
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
