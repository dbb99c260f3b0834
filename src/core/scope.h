// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes: nested deadlines, cancels, shields and children around the calls of a fiber. The fiber's one timer is set to
// the earliest deadline that counts; the fiber's pending bits tell its next call whether a scope has ended. The calls
// of api/scope.cc come here. The children are in children.h.
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
    std::atomic<Fiber*> fiber; // the fiber that opened it. Other threads compare it, or send requests to its slot
    int64_t deadline;
    uint8_t stopped;   // Pending bits for the calls inside: its deadline was seen to pass, it was cancelled
    uint8_t shield;    // Pending bits of the reasons from outer scopes that are held back
    bool record_only;  // on the stack, not in a slot
    bool has_children; // it has or has had some: `children` is in use. Only its own cord reads this
    uint8_t flags;     // FIBER_SCOPE_*
    std::atomic<uint32_t> generation;
    uint32_t index;
    Scope* next_free;
    void* reason; // the reason of the cancel, if `stopped` has the bit

    SpinLock lock;      // guards the next two, and of `children` the members that its comments name
    uint32_t asked_for; // another thread has asked to cancel the scope of this generation
    void* asked_reason; // the reason of that cancel
    Children children;

    Scope() = default;

    // Whether it has only a deadline, which has not fired.
    bool plain() const { return !(shield | stopped | has_children); }
};

extern SlotTable<Scope, Tag::scope> scopes;

void scope_push(Cord& cord, Fiber* fiber, Scope* scope, int64_t deadline, uint8_t flags);
void scope_pop(Cord& cord, Fiber* fiber);       // closes the innermost scope; gives its slot back
void scope_pop_plain(Cord& cord, Fiber* fiber); // scope_pop for a plain() scope, quickly
void scope_move_deadline(Cord& cord, Scope* scope, int64_t deadline, bool ahead); // ahead: it lies in the future

// Closes the innermost scope, after waiting for its children. Returns the verdict, and stores the first failure among
// the children. The scope stays open on -EDEADLK: the children never end; and on -EPERM: there are children, and the
// fiber is in a no-switch section.
int scope_close(Cord& cord, Fiber* fiber, int64_t* failure);

// Closes the scopes of the current fiber up to this one, which it has open. Returns the verdict of this one. failure
// may be null. -EPERM: a scope has children and the fiber may not wait; then none is closed.
int scopes_close(Cord& cord, Scope* scope, int64_t* failure);

// Takes the end of a child of a scope of the current fiber that no call has reported yet, and waits until there is one.
// 1 and its handle and result; 0: all ends have been reported; or why the fiber's wait ended early.
int scope_next(Cord& cord, Scope* scope, uint64_t* child, int64_t* result);

// Closes the scopes that the current fiber, which ends, has left open: cancels their children, and waits for them.
void scopes_end(Cord& cord, Fiber* fiber);

// Cancels a scope that is open in this fiber of the calling cord.
void scope_cancel(Cord& cord, Fiber* fiber, Scope* scope, void* reason);

// Asks the scope's cord to cancel the scope; from any thread. 0: the request was sent; -ESRCH.
int scope_cancel_elsewhere(Scope* scope, uint32_t generation, void* reason);
void scopes_asked(Cord& cord, Fiber* fiber); // the request has arrived: cancels the scopes asked for

// Whether the fiber, of the calling cord, has this scope open.
bool scope_is_of(const Scope* scope, const Fiber* fiber);

// Whether a scope of this fiber is cancelled or past its deadline, by itself or by an outer scope, and the reason.
// Shields further in do not count.
bool scope_stopped(const Fiber* fiber, const Scope* scope, void** reason);

// Cancels the children of each scope that is stopped, after the fiber or one of its scopes was stopped.
void scopes_stop_children(Cord& cord, Fiber* fiber);

// Sets the fiber's pending bits and its timer, after a change to the fiber's scopes or requests.
void pending_update(Cord& cord, Fiber* fiber);

// Calls visit(scope) for each scope whose deadline counts. A scope outside a shield that holds deadlines back does not
// count, unless it or a scope between it and the shield has had children: the shield does not cover these children.
template <class Visit>
void each_counting_scope(Scope* innermost, Visit visit) {
    bool counts = true;
    for (Scope* s = innermost; s; s = s->outer) {
        if (s->has_children) counts = true;
        if (counts) visit(s);
        if (s->shield & pending_timeout) counts = false;
    }
}

} // namespace fiberrt
