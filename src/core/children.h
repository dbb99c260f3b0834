// SPDX-License-Identifier: MIT OR Apache-2.0
// The children of a scope: fibers of any cord that it started, and whose ends it waits for.
//
//   owner's cord                        child's cord
//   Scope ── running ──▶ Child ◀─ ─ ─ ─ fiber: Child::end is one of its joins
//         ── cancelled ─▶ ...             the fiber ends, however it does: completes Child::end,
//         ── ended ────▶ Child  ◀──────── which is the message that brings the end home
//
// A child's record waits in its fiber's remote requests as a join from another cord does. So every end of a fiber
// reaches the scope: a return, a cancel before the first run, no stack, the end of the cord. The owner's cord does the
// work that follows from an end. Other cords add children under the scope's lock, once the owner's cord has made the
// first.
#pragma once

#include "base/list.h"
#include "core/shared_wait.h"
#include "core/slots.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;
struct Scope;

struct Child : Link {
    struct End : EndWait {
        Child* child;
    };
    End end;                 // in its fiber's remote requests until the fiber ends, then on its way to the owner's cord
    Scope* scope;            // null: the scope was discarded; the record is freed when the end arrives
    uint64_t fiber;          // 0: a task of a pool that has not begun
    int64_t result;          // once the child is in Children::ended
    bool cancelled;          // by the scope
    bool unreported;         // fiber_scope_next does not return its end
    bool settled;            // it has begun, or will end without beginning: its end will arrive. Under the scope's lock
    bool discarded;          // the scope was discarded before that: it never begins. Under the scope's lock
    void (*free_arg)(void*); // of a task: called with arg if the task never begins; or null
    void* arg;
    std::atomic<uint32_t> generation;
    uint32_t index;
    Child* next_free;

    Child() = default;
};

// The records of children. The record of an ended child stays until fiber_scope_next has reported it, except for a
// child made with the attribute of a detached fiber.
extern SlotTable<Child, Tag::child> child_records;

// The Wait of a scope's fiber for its children.
struct ChildrenWait : Wait {
    Scope* scope = nullptr;
    bool for_all = false;
};

struct Children {
    // Under the lock of the scope:
    uint32_t generation; // the generation of the scope; if the scope has another by now, it has had no children yet
    bool closed;         // the scope takes no more children
    bool stopped;        // all children have been cancelled, and later ones will be
    void* reason;        // of that cancel
    uint32_t awaited;    // children in the two lists whose ends will be reported
    ShortList<Child> running;
    ShortList<Child> cancelled;

    // Only the owner's cord touches these:
    Cord* home; // the owner's cord; other threads may read this under the lock
    bool failed;
    int64_t failure;        // result of the first child that failed; -ECANCELED of a cancelled child does not count
    ShortList<Child> ended; // children whose ends have not been reported, in order of their ends
    ChildrenWait* waiter;
    EndWait* watch;  // the case of a select that waits for an end; null: none
    bool due;        // the scope is in its cord's list of scopes whose children must be cancelled
    Scope* next_due; // the next scope in that list
};

inline bool none_left(const Children& all) { return all.running.empty() && all.cancelled.empty(); }

// The record whose end this wait brings; null: the wait is no child's.
Child* child_of(EndWait* wait);

// Prepares a scope for a new child. 0; -ESRCH: the scope of this generation is gone, or closed to new children. For the
// first child also -EPERM: `here` is not the owner's cord; -EPIPE: the fibers of the owner's cord have ended, and only
// destructors of keys still run.
int children_open(Cord& here, Scope* scope, uint32_t generation);

// Fills the record of a child that is a new fiber, whose handle no other thread knows yet.
void child_begin(Child* child, Scope* scope, Fiber* fiber, bool unreported);

// Fills the record of a child that is a task of a pool.
void child_begin_task(Child* child, Scope* scope, bool unreported);

// Makes `me`, a fiber about to run such a task, the child. False: the task must not run, and its end has been sent to
// the scope.
bool child_begins(Cord& cord, Child* child, Fiber* me);

// Tells the scope that the task will never run.
void child_never_begins(Cord& cord, Child* child, int64_t error);

// Removes a child that was entered, but whose task no pool has accepted.
void child_withdraw(Cord& cord, Child* child);

// Adds the child to its scope. 0; 1: the caller must cancel it, for *reason; -ESRCH: the scope is closed, and
// child_begin is undone.
int child_enter(Child* child, uint32_t generation, void** reason);

// Cancels the scope's children, and all that are added later. Children of children, which must then be cancelled too,
// are left to the outermost call: so a call needs the same room on a stack however deep scopes are nested.
void children_cancel(Cord& cord, Scope* scope, void* reason);

bool children_left(Scope* scope);

// Waits until no child is left, and closes the scope to new ones. 0 or -EDEADLK; -EPERM: it would wait, and may not.
int children_await(Cord& cord, Scope* scope, bool may_wait);

// Takes an end that has not been reported. 1 and the child's handle and result; 0: all ends have been reported;
// -EAGAIN: the next one has not arrived.
int children_take(Cord& cord, Scope* scope, uint64_t* fiber, int64_t* result);

// Like children_take, but waits for an end; also returns why the wait ended early.
int children_next(Cord& cord, Scope* scope, uint64_t* fiber, int64_t* result);

// Has a select by the scope's fiber wait for an end, after children_take() returned -EAGAIN: the wait that `watch`
// stands for will be completed when an end arrives, and the fiber then takes the end. False: an end has arrived since.
// If a select has the scope twice, its first watch is for both.
bool children_watch(Scope* scope, EndWait& watch);
void children_unwatch(Scope* scope, EndWait& watch);

// In the child of a fork: children of `me`'s scopes that had not ended are lost; their ends are -EOWNERDEAD.
void children_forked(Fiber* me); // null: no fiber goes on, and all records are freed

// Detaches the children from a scope that is about to be freed. If any are left, because its thread ends, they are
// cancelled and go on without the scope.
void children_discard(Cord& cord, Scope* scope);

} // namespace fiberrt
