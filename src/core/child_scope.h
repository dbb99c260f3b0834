// SPDX-License-Identifier: MIT OR Apache-2.0
// Which scope a fiber is a child of.
#pragma once

#include "base/peek.h"
#include "core/children.h"
#include "core/fiber.h"
#include "core/scope.h"

namespace fiberrt {

// The handle of the scope that a fiber is a child of, and of the fiber that opened the scope; 0: none. For any thread.
// The caller holds the lock of the fiber's remote requests.
inline uint64_t scope_of_child(Fiber* fiber, uint64_t* parent) {
    *parent = 0;
    uint32_t generation = fiber->generation.load(std::memory_order_relaxed);
    for (EndWait* wait = fiber->remote.joiners.front(); wait; wait = fiber->remote.joiners.after(wait)) {
        Child* child = child_of(wait);
        if (!child || wait->generation != generation) continue;
        // The owner's cord may discard the scope meanwhile. The slots of scopes and fibers are never unmapped.
        Scope* scope = peek(child->scope);
        Fiber* opener = scope ? scope->fiber.load(std::memory_order_relaxed) : nullptr;
        if (!opener) return 0;
        uint32_t of_scope = scope->generation.load(std::memory_order_relaxed);
        uint32_t of_opener = opener->generation.load(std::memory_order_relaxed);
        if (!(of_scope & 1) || !(of_opener & 1)) return 0;
        *parent = make_id(Tag::fiber, opener->index, of_opener);
        return make_id(Tag::scope, scope->index, of_scope);
    }
    return 0;
}

} // namespace fiberrt
