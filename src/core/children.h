// SPDX-License-Identifier: MIT OR Apache-2.0
// The children of a scope: fibers of any cord that it started, and whose ends it waits for.
//
//   owner's cord                        child's cord
//   Scope ── running ──▶ Child ◀─ ─ ─ ─ fiber: Child::end is one of those that join it
//         ── cancelled ─▶ ...             the fiber ends, however it does: completes Child::end,
//         ── ended ────▶ Child  ◀──────── which is the message that brings the end home
//
// A child's record waits in its fiber's mail as a join from elsewhere does, so all that ends a join tells the scope:
// a return, a cancel before the first run, no stack, the end of the cord. All that follows from an end is done on the
// owner's cord. Others add children under the scope's lock, once the owner's cord has made the first.
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
    End end;                 // in the mail of its fiber until that ends, then on its way home
    Scope* scope;            // null: the scope has been given up; the record goes when the end has come
    uint64_t fiber;          // 0: a task of a pool that has not begun
    int64_t result;          // once it is in `ended`
    bool cancelled;          // by the scope
    bool unreported;         // nobody is to be told of its end
    bool decided;            // it has begun, or it is known how it ends without that, and its end will come home
    bool forgotten;          // the scope was given up before that: it never begins. Both under the scope's lock
    void (*free_arg)(void*); // of a task: what is called if it never begins, or null,
    void* arg;               // with this
    std::atomic<uint32_t> generation;
    uint32_t index;
    Child* next_free;

    Child() = default;
};

extern SlotTable<Child, Tag::child> child_records;

// Where a scope's fiber waits for them.
struct ChildrenWait : Wait {
    Scope* scope = nullptr;
    bool for_all = false;
};

struct Children {
    // Under the lock of the scope:
    uint32_t of;      // the generation of the scope whose they are; if it is another, the scope has had none yet
    bool closed;      // no more are taken
    bool stopped;     // all have been cancelled, and who comes will be,
    void* reason;     // for this
    uint32_t awaited; // of the two lists, those whose ends are to be reported
    ShortList<Child> running;
    ShortList<Child> cancelled;

    // Of the owner's cord:
    Cord* home; // which that is: others may read it under the lock
    bool failed;
    int64_t failure;        // what the first that failed returned
    ShortList<Child> ended; // and not reported, in order
    ChildrenWait* waiter;
    EndWait* watch;  // or of a select: it stands for that
    bool due;        // it stands in the cord's list of the scopes whose children are to be cancelled,
    Scope* next_due; // and after it that one
};

// A child is about to be made in the scope of this generation. 0, -ESRCH; -EPERM: it would be the first, and this is
// not its owner's cord; -EPIPE: it would be the first, and the owner's cord has ended but for its keys.
int children_open(Cord& here, Scope* scope, uint32_t generation);

// The fiber, which is new and known to nobody, will be a child.
void child_begin(Child* child, Scope* scope, Fiber* fiber, bool unreported);

// The same of a task, which a pool will run.
void child_begin_task(Child* child, Scope* scope, bool unreported);

// `me` is about to run such a task. False: it is not to be run, and its end has been told.
bool child_begins(Cord& cord, Child* child, Fiber* me);

// It will never run: the scope is told so.
void child_never_begins(Cord& cord, Child* child, int64_t error);

// It has been entered, but nobody has taken the task: it is as if it had never been there.
void child_withdraw(Cord& cord, Child* child);

// From here on it is one. 0; 1: and it is to be cancelled, for this reason. -ESRCH: the scope is closed; child_begin is
// undone.
int child_enter(Child* child, uint32_t generation, void** reason);

// Cancels those that are left, and who comes. What is to be cancelled in consequence, children of children, waits for
// the outermost call: so it takes the same room on a stack however deep they are nested.
void children_cancel(Cord& cord, Scope* scope, void* reason);

bool children_left(Scope* scope);

// Waits until none is left, and no more are taken. 0 or -EDEADLK; -EPERM: it would wait, and may not.
int children_await(Cord& cord, Scope* scope, bool may_wait);

// Takes the end of one that has not been reported. 1 and its handle and result; 0: all have; -EAGAIN: not yet.
int children_take(Cord& cord, Scope* scope, uint64_t* fiber, int64_t* result);

// The same, and waits for it; also why the wait ended early.
int children_next(Cord& cord, Scope* scope, uint64_t* fiber, int64_t* result);

// Of a select by the scope's fiber, after children_take() had it wait: what `watch` stands for will be completed when
// an end comes, for the fiber to take that. False: one has come since. If a select has the scope twice, its first watch
// is for both.
bool children_watch(Scope* scope, EndWait& watch);
void children_unwatch(Scope* scope, EndWait& watch);

// In the child of a fork: the scopes of `me` have lost the children that had not ended, and only their records remain.
void children_forked(Fiber* me); // null: nobody has any

// The scope is about to go: if any children are left, since its thread ends, they are cancelled and go on without it.
void children_forget(Cord& cord, Scope* scope);

} // namespace fiberrt
