// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes and their children.
#include "api/api.h"
#include "api/attr.h"
#include "base/keep_errno.h"
#include "core/life.h"
#include "core/mail.h"
#include "core/noswitch.h"
#include "pool/pool.h"

using namespace fiberrt;

namespace {

constexpr unsigned known_flags =
    FIBER_SCOPE_SHIELD | FIBER_SCOPE_COLLECT | FIBER_SCOPE_FIRST | FIBER_SCOPE_SHIELD_CANCEL;

int take_record(Cord& cord, Scope** out) {
    if (cord.free_scopes.head) [[likely]] {
        *out = scopes.take_free(cord.free_scopes);
        return 0;
    }
    KeepErrno keep;
    return scopes.take(cord.free_scopes, out);
}

// What stands in the way of closing the scopes up to this one: asked before the first is closed. Another cord may still
// give one a child meanwhile.
bool may_not_wait(const Fiber* me, const Scope* scope) {
    if (!(me->attention & attention_noswitch)) return false;
    for (Scope* s = me->scopes;; s = s->outer) {
        if (s->has_children && children_left(s)) return noswitch_refuses(me);
        if (s == scope) return false;
    }
}

// Where a fiber is to be made.
struct Place {
    Cord* here;
    Cord* cord;
    uint64_t id; // of that, if it is not here
};

int find_place(const fiber_attr& attr, Place* out) {
    Cord* to = nullptr;
    int error = attr.cord ? cords.resolve(attr.cord, &to) : 0;
    if (error) return error;
    Cord* here = cord_here();
    if (!here) return no_cord();
    *out = {here, to ? to : here, attr.cord};
    if (to && to != here && to->inbox.is_closed()) return -ESRCH;
    return out->cord->closing ? -EPIPE : 0;
}

int create(const Place& place, const fiber_attr& attr, Fiber** out) {
    Kind kind = attr.daemon ? Kind::daemon : Kind::keeps_cord;
    return place.cord == place.here ? fiber_create(*place.here, kind, out)
                                    : fiber_create_elsewhere(*place.cord, place.id, kind, out);
}

void create_undo(const Place& place, Fiber* fiber) {
    if (place.cord != place.here) return fiber_create_undo(fiber);
    fiber->detached = true;
    fiber->along = 0; // the caller keeps it
    end_unrun(*place.here, fiber, nullptr, 0);
}

// Schedules the first run of a child, or ends it.
void hand_over(const Place& place, Fiber* fiber, bool stopped, void* reason) {
    if (place.cord == place.here) {
        if (stopped) {
            note_reason(fiber, reason);
            cancel(*place.here, fiber);
        } else {
            wake_up(*place.here, fiber, nullptr);
        }
        return;
    }
    if (stopped) cancel_elsewhere(fiber, id_generation(fibers.id_of(fiber)), reason); // goes with it
    if (send_new(*place.cord, fiber, true) == 0) return;
    own_arg_free(*place.here, fiber);
    EndWait* joiners = joiners_in_mail(fiber);
    fiber_create_undo(fiber);
    end_waits_complete(joiners, nullptr, stopped ? -ECANCELED : -EOWNERDEAD);
}

// Its 64 bits come back in the register in which a pointer would.
void* (*as_fiber_function(int64_t (*fn)(void*)))(void*) {
    return reinterpret_cast<void* (*)(void*)>(reinterpret_cast<void (*)()>(fn));
}

// A child that is a task of a pool: it has no fiber yet.
int spawn_task(fiber_scope_t handle, const fiber_attr& attr, int64_t (*fn)(void*), void* arg) {
    KeepErrno keep;
    Scope* scope;
    Child* child;
    uint32_t generation = id_generation(handle.id);
    if (int error = scopes.resolve(handle.id, &scope)) return error;
    Cord* here = cord_here();
    if (!here) return no_cord();
    if (int error = children_open(*here, scope, generation)) return error;
    if (int error = child_records.take(here->free_children, &child)) return error;
    child_begin_task(child, scope, attr.detached);
    child->free_arg = attr.free_arg;
    child->arg = arg;
    void* reason;
    int stopped = child_enter(child, generation, &reason);
    if (stopped < 0) {
        child_records.end_use(child);
        child_records.give_back(here->free_children, child);
        return stopped;
    }
    if (stopped) {
        child_never_begins(*here, child, -ECANCELED);
        return 0;
    }
    int error = pool_submit(attr.pool, {as_fiber_function(fn), arg, child}, false);
    if (error) child_withdraw(*here, child);
    return error;
}

int spawn(fiber_scope_t handle, fiber_t* out, const fiber_attr& attr, int64_t (*fn)(void*), void* arg) {
    if (!fn) return -EINVAL;
    if (attr.pool) return out || attr.cord ? -EINVAL : spawn_task(handle, attr, fn, arg);
    KeepErrno keep;
    Scope* scope;
    Place place;
    Child* child;
    Fiber* fiber;
    uint32_t generation = id_generation(handle.id);
    if (int error = scopes.resolve(handle.id, &scope)) return error;
    if (int error = find_place(attr, &place)) return error;
    if (int error = children_open(*place.here, scope, generation)) return error;
    if (int error = child_records.take(place.here->free_children, &child)) return error;
    int error = create(place, attr, &fiber);
    if (error == 0) {
        apply(fiber, attr, as_fiber_function(fn), arg); // no C++ calls it, but under sanitizers (core/hooks.cc)
        child_begin(child, scope, fiber, attr.detached);
        void* reason;
        int stopped = child_enter(child, generation, &reason);
        if (stopped >= 0) {
            if (out) *out = handle_of(fiber); // before it can end
            hand_over(place, fiber, stopped, reason);
            return 0;
        }
        create_undo(place, fiber);
        error = stopped;
    }
    child_records.end_use(child);
    child_records.give_back(place.here->free_children, child);
    return error;
}

// One that is not the innermost, has children, or has been stopped.
int close_slowly(fiber_scope_t handle, int64_t* failure) {
    Scope* scope;
    int error = own_scope(handle, &scope);
    if (error) return error;
    Cord& cord = *this_cord;
    Fiber* me = cord.current;
    if (me->attention && may_not_wait(me, scope)) return -EPERM;
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

} // namespace

int fiber_scope_open(fiber_scope_t* out, int64_t timeout_ns, unsigned flags) {
    if (!out || timeout_ns < 0 || (flags & ~known_flags)) return -EINVAL;
    if ((flags & FIBER_SCOPE_COLLECT) && (flags & FIBER_SCOPE_FIRST)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Scope* scope;
    if (int error = take_record(*cord, &scope)) return error;
    scope->record_only = false;
    scope_push(*cord, cord->current, scope, deadline_after(*cord, timeout_ns), uint8_t(flags));
    out->id = scopes.id_of(scope);
    return 0;
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
    Cord& cord = *this_cord;
    Fiber* me = cord.current;
    if (me->attention) return attend(cord, me);
    uint64_t id = 0;
    int64_t value = 0;
    int told = children_take(cord, scope, &id, &value);
    const bool waits = told == -EAGAIN;
    if (waits) told = children_next(cord, scope, &id, &value);
    if (told <= 0) return told;
    if (child) child->id = id;
    if (result) *result = value;
    if (!waits) turn_taken(cord);
    return told;
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
    bool innermost = cord && scopes.resolve(handle.id, &scope) == 0 && cord->current->scopes == scope;
    if (!innermost || !scope->plain()) [[unlikely]]
        return close_slowly(handle, failure);
    scope_pop_plain(*cord, cord->current);
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
