// SPDX-License-Identifier: MIT OR Apache-2.0
// Looks at a fiber of any cord, from any thread: takes a snapshot of the fiber as it was at one moment. The fiber's
// cord is neither asked nor stopped, because it may be busy for ever; and looks cost fibers nothing.
//
//   the looking thread                            the fiber's thread
//     sets mark_looked in Fiber::sched.marks
//     membarrier: all threads see the mark
//     the fiber is parked: reads its control        the fiber continues: finds a mark, which it looks for anyway
//     block, its Wait, its stack                    because of C++ exceptions, and clears all marks
//     is the mark still set?  ── no ──▶ again
//
// A stackless fiber continues where its turn begins (result_for in src/stackless). While its host may run it, it counts
// as running, except for its own cord's thread.
//
// If the mark is still set, the fiber has stood still meanwhile, and all values belong together. If the fiber continued
// each time, the snapshot says that it runs. A fiber's Wait and stack lie in memory that the fiber may free when it
// continues; so copy_readable() reads them.
#pragma once

#include "core/cord.h"
#include "core/fiber.h"
#include "core/hooks.h" // FIBERRT_THREAD_SANITIZER
#include "core/wait.h"
#include "fiberrt.h"
#include "io/ops.h"

#include <atomic>
#include <stdint.h>

namespace fiberrt {

// An open scope.
struct ScopeSnapshot {
    int64_t deadline;
    uint8_t stopped;
    uint8_t shield;
    bool has_children; // that have not ended
};

// What a fiber waits for.
struct WaitSnapshot {
    WaitFor what;
    uint64_t target; // fiber, foreign_fiber, cord: the handle; children: the scope's handle
    bool for_all;    // children: for the ends of all, not of any
    struct {         // op
        OpCode code;
        int fd;
        uint32_t flags;
        bool stopping;
    } op;
    char text[40];       // primitive: the text of the WaiterKind
    uintptr_t primitive; // its address
    uint64_t owner;      // primitive: the handle of the fiber that holds it; 0: none, or not known
};

struct Snapshot {
    uint64_t id;
    Cord* cord; // the fiber's own, or the one that it will belong to
    State state;
    Kind kind;
    bool cancelled;
    bool interrupted;
    bool permit;
    bool detached;
    bool is_asked_to_stop; // another cord's cancel or interrupt is on its way
    char* stack_low;       // null: it has no stack of the library's
    uint8_t stack_class;
    fiber_tag_t tag; // kind 0: none
    char name[FIBER_NAME_MAX];
    uint64_t scope;  // the handle of the scope that it is a child of; 0: none
    uint64_t parent; // and of the fiber that opened the scope

    // Whether the members below are valid and, with the ones above, of one moment. False: the fiber runs, or continued
    // each time that it was looked at, or the kernel lacks the calls that a look needs.
    bool still;
    bool on_thread;       // it gave way last, and its thread polls or sleeps on its stack: sp is not valid
    const void* sleep_pc; // on_thread: as CordWorld::StackInUse has them; null: not known
    char* sleep_cfa;
    char* sp;             // null: it has not run yet, has ended or has no stack
    uintptr_t function;   // before its first run: its function; else 0
    uint64_t transferred; // state transferring: the handle of the fiber that it transferred to
    int64_t deadline;     // of the wait itself; `never`: none
    bool has_wait;        // state waiting, and `wait` is valid
    WaitSnapshot wait;
    char reason[64];       // state yielding: why, in the words of the fiber's host (FIBER_OP_REASON); empty: none
    uint64_t reason_about; // with a reason: a fiber's handle, or another number of the host's; 0: none
    static constexpr int scopes_most = 8;
    ScopeSnapshot scopes[scopes_most]; // the innermost ones, innermost first
    int scope_count;
    bool more_scopes; // further ones that are not in `scopes`
};

// Takes the snapshot. -ESRCH: the slot has no fiber, or another one than `handle` names.
int look(Fiber* fiber, fiber_t handle, Snapshot& out);

// Takes the snapshot, and does more work in that moment: calls more(out) when the members about the wait are set,
// perhaps several times, while the fiber is marked and no other look is under way. Results of a call count only if no
// other call follows it, and out.still is true at the end.
using LookMore = void (*)(const Snapshot& out, void* arg);
int look(Fiber* fiber, fiber_t handle, Snapshot& out, LookMore more, void* arg);

// Whether the fiber's thread is on the fiber's stack, though the fiber may be parked: about to switch, in a hook, in a
// poll, or asleep.
struct Place {
    bool on_thread;
    const void* sleep_pc; // on_thread: as CordWorld::StackInUse has them
    char* sleep_cfa;
    uint64_t polls;
};

// How many looks a caller of look_at_all() takes in one round. A mark makes a switch slower, and a fiber that runs
// within the time of one round must be looked at again; so a round has few fibers.
constexpr int looks_most = 32;

// A look at one fiber of several. The caller sets the first four members.
struct Look {
    Fiber* fiber;
    fiber_t handle;
    Snapshot* seen;
    void* arg;     // of `more`
    int error = 0; // as look() returns it

    // The looks' own:
    bool settled = false;
    State before = State::created;
    Place place = {};
};

// Looks at several different fibers, with one membarrier(2) for all, so it takes a fraction of the time. The snapshots
// are of different moments.
void look_at_all(Look* looks, int count, LookMore more);

// Looks at several different fibers at one moment: returns true if none of them ran, from before the first was read
// until after the last was read. False: at least one of them ran, or the kernel lacks the calls that this needs.
bool look_at_one_moment(Look* looks, int count, LookMore more);

// The handle of the only fiber that can end the wait; 0: there is none, or others could.
uint64_t waits_for(const Snapshot& fiber);

// The handle of the fiber that the reason names; 0: it names none.
inline uint64_t fiber_of_reason(const Snapshot& fiber) {
    return fiber.reason[0] && fiber.reason_about >> 56 == uint64_t(Tag::fiber) ? fiber.reason_about : 0;
}

// The handle of the fiber of a slot, also if the slot has been given to another one since; 0: there is none.
inline uint64_t id_in(const Fiber* fiber) {
    uint32_t generation = fiber->generation.load(std::memory_order_relaxed);
    return generation & 1 ? make_id(Tag::fiber, fiber->index, generation) : 0;
}

// The reads before come before the reads after. (ThreadSanitizer does not know fences.)
inline void reads_in_order() {
#if !FIBERRT_THREAD_SANITIZER
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

// The handle of the fiber that stored this identity in a lock (sync/caller.h); 0: no fiber did, or it is not known.
uint64_t fiber_of_identity(uintptr_t identity);

// For fork: between lock and unlock, no thread looks.
void look_lock();
void look_unlock();

} // namespace fiberrt
