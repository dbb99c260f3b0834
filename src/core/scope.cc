// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes, and what follows from them for the fiber: its timer and its attention bits.
#include "core/scope.h"

#include "core/cord.h"
#include "core/relay.h"

namespace fiberrt {

constinit SlotTable<Scope, Tag::scope> scopes;

namespace {

// The earliest deadline of the open scopes that are not shielded off and have not fired.
int64_t scope_deadline(const Fiber* fiber) {
    int64_t deadline = never;
    for (const Scope* s = fiber->scopes; s; s = s->shield ? nullptr : s->outer) {
        if (!s->fired && s->deadline < deadline) deadline = s->deadline;
    }
    return deadline;
}

// The fiber's one timer stands at the earliest deadline that counts.
void timer_update(Cord& cord, Fiber* fiber) {
    int64_t deadline = scope_deadline(fiber);
    if (fiber->wait_deadline < deadline) deadline = fiber->wait_deadline;
    if (deadline != fiber->timer.deadline) cord.timers.set(&fiber->timer, deadline);
}

} // namespace

void wait_deadline_set(Cord& cord, Fiber* fiber, int64_t deadline) {
    fiber->wait_deadline = deadline;
    timer_update(cord, fiber);
}

void attention_update(Cord& cord, Fiber* fiber) {
    uint8_t attention = 0;
    bool shielded = false;
    for (const Scope* s = fiber->scopes; s && !shielded; s = s->outer) {
        if (s->fired) attention |= attention_timeout;
        shielded = s->shield;
    }
    if (!shielded && fiber->cancelled) attention |= attention_cancel;
    if (!shielded && fiber->interrupt_pending) attention |= attention_interrupt;
    if (cord.noswitch_depth && fiber == cord.current) attention |= attention_noswitch;
    fiber->attention = attention;
    timer_update(cord, fiber);
}

void scope_push(Cord& cord, Fiber* fiber, Scope* scope, int64_t deadline, bool shield) {
    scope->outer = fiber->scopes;
    scope->fiber.store(fiber, std::memory_order_relaxed);
    scope->deadline = deadline;
    scope->fired = false;
    scope->shield = shield;
    fiber->scopes = scope;
    attention_update(cord, fiber);
}

void scope_pop(Cord& cord, Fiber* fiber) {
    Scope* scope = fiber->scopes;
    fiber->scopes = scope->outer;
    if (!scope->record_only) {
        scopes.end_use(scope);
        scopes.give_back(cord.free_scopes, scope);
    }
    attention_update(cord, fiber);
}

void scope_move_deadline(Cord& cord, Scope* scope, int64_t deadline, bool ahead) {
    scope->deadline = deadline;
    scope->fired = scope->fired && !ahead;
    attention_update(cord, scope->fiber.load(std::memory_order_relaxed));
}

} // namespace fiberrt
