// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes: deadlines, cancels, shields and children around what a fiber does, nested. Here is what waiting needs to know
// of them: their deadlines are kept in the fiber's one timer, which stands at the earliest of those that count. The
// children are in children.h.
#pragma once

#include "base/spin_lock.h"
#include "core/children.h"
#include "core/fiber.h"
#include "core/slots.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

struct Scope {
    Scope* outer;
    std::atomic<Fiber*> fiber; // that opened it; other threads compare it, or send to whoever has that slot
    int64_t deadline;
    uint8_t stopped;   // Attention bits for the calls inside: its deadline was seen to pass, it was cancelled
    uint8_t shield;    // Attention bits of the reasons from outside that are held back
    bool record_only;  // on the stack, not in a slot
    bool has_children; // or has had some: `children` is in use. Only its own cord looks at this
    uint8_t flags;     // FIBER_SCOPE_*
    std::atomic<uint32_t> generation;
    uint32_t index;
    Scope* next_free;
    void* reason; // of its cancel, if that is in `stopped`

    SpinLock lock;      // of what other threads say:
    uint32_t asked_for; // the scope of this generation is to be cancelled,
    void* asked_reason; // with this reason,
    Children children;  // and, of these, what is said there

    Scope() = default;

    // Nothing but a deadline, which has not fired.
    bool plain() const { return !(shield | stopped | has_children); }
};

extern SlotTable<Scope, Tag::scope> scopes;

void scope_push(Cord& cord, Fiber* fiber, Scope* scope, int64_t deadline, uint8_t flags);
void scope_pop(Cord& cord, Fiber* fiber);       // the innermost; its slot, if any, is given back
void scope_pop_plain(Cord& cord, Fiber* fiber); // the same of a plain one, quickly
void scope_move_deadline(Cord& cord, Scope* scope, int64_t deadline, bool ahead); // ahead: it lies in the future

// Closes the innermost scope, whose children are waited for. The verdict, and the first failure among the children. Or
// it stays open: -EDEADLK, they never end; -EPERM, there are some in a no-switch section.
int scope_close(Cord& cord, Fiber* fiber, int64_t* failure);

// Closes the scopes of the current fiber up to this one, which it has open: the verdict of this one. failure may be
// null. -EPERM: one has children and the fiber may not wait; then none is closed.
int scopes_close(Cord& cord, Scope* scope, int64_t* failure);

// Takes the end of a child of a scope of the current fiber that no call has reported yet, and waits until there is one.
// 1 and its handle and result; 0: all ends have been reported; or why the fiber's wait ended early.
int scope_next(Cord& cord, Scope* scope, uint64_t* child, int64_t* result);

// The current fiber ends: cancels what is left in the scopes that it left open, waits for it, and closes them.
void scopes_end(Cord& cord, Fiber* fiber);

// Cancels a scope that is open in this fiber of the calling cord.
void scope_cancel(Cord& cord, Fiber* fiber, Scope* scope, void* reason);

// The same from any thread. 0: it was sent; -ESRCH.
int scope_cancel_elsewhere(Scope* scope, uint32_t generation, void* reason);
void scopes_asked(Cord& cord, Fiber* fiber); // which has come

// Whether the fiber, of the calling cord, has this scope open.
bool scope_is_of(const Scope* scope, const Fiber* fiber);

// Whether the calls inside a scope of this fiber are to end, but for the shields inside it; and why.
bool scope_stopped(const Fiber* fiber, const Scope* scope, void** reason);

// Something has been stopped: cancels the children of each scope that is in it.
void scopes_stop_children(Cord& cord, Fiber* fiber);

// Works out again which deadlines count and what stands in the way of the fiber's next call.
void attention_update(Cord& cord, Fiber* fiber);

// Calls visit(scope) for each scope whose deadline counts. A scope around a shield that holds deadlines back does not
// count, unless it or a scope between it and the shield has had children: the shield does not cover these.
template <class Visit>
void each_counting_scope(Scope* innermost, Visit visit) {
    bool counts = true;
    for (Scope* s = innermost; s; s = s->outer) {
        if (s->has_children) counts = true;
        if (counts) visit(s);
        if (s->shield & attention_timeout) counts = false;
    }
}

} // namespace fiberrt
