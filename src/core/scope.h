// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes: deadlines and shields around what a fiber does, nested. Here is what waiting needs to know of them: their
// deadlines are kept in the fiber's one timer, which stands at the earliest of those that count.
#pragma once

#include "core/slots.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

struct Scope {
    Scope* outer;
    std::atomic<Fiber*> fiber; // that opened it; other threads only compare it
    int64_t deadline;
    bool fired;  // the deadline was seen to pass: calls inside fail with -ETIMEDOUT
    bool shield; // what comes from outside is held back
    bool record_only; // on the stack, not in a slot
    std::atomic<uint32_t> generation;
    uint32_t index;
    Scope* next_free;

    Scope() = default;
};

extern SlotTable<Scope, Tag::scope> scopes;

void scope_push(Cord& cord, Fiber* fiber, Scope* scope, int64_t deadline, bool shield);
void scope_pop(Cord& cord, Fiber* fiber); // the innermost; its slot, if any, is given back
void scope_move_deadline(Cord& cord, Scope* scope, int64_t deadline, bool ahead); // ahead: it lies in the future

// Works out again which deadlines count and what stands in the way of the fiber's next call.
void attention_update(Cord& cord, Fiber* fiber);

} // namespace fiberrt
