// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord: a thread's world. Its run queue, timers, stacks, free slots and backend; the fiber that runs; the counters.
//
// A cord is opened by the first call on a thread that needs one, or made with its thread by cord_start, and ends with
// the thread. Only its thread touches its world; the rest is what other threads may see of it. Its record is a slot
// like a fiber's, never unmapped and reused by other cords.
#pragma once

#include "base/list.h"
#include "base/relaxed.h"
#include "base/spin_lock.h"
#include "core/environment.h"
#include "core/fiber.h"
#include "core/inbox.h"
#include "core/pace.h"
#include "core/parts.h"
#include "core/processors.h"
#include "core/run_queue.h"
#include "core/scope.h"
#include "core/stack_pool.h"
#include "core/timers.h"
#include "core/backend.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>

namespace fiberrt {

struct Ambient;
struct CordIo;
struct HeldLock;
struct Wait;
struct QuietWait;

// The executor of fibers without a stack; src/stackless fills it.
struct Executor {
    const ExecutorOps* ops; // null: there has been no such fiber
    Fiber* carrier;         // the fiber on whose stack their steps run; null: there has been none
    Fiber* offered_first; // those that are runnable and that their host has not taken yet, in order, through next_free
    Fiber* offered_last;
    Wait* exchanger; // of the fiber that waits for such ones, until it has gone on; null: none does
    Fiber* host;     // the fiber in whose place one without a stack is the current one, by fiber_hosted_enter
};

// The foreign loop that has the thread; src/embed fills it.
struct ForeignLoop {
    const LoopOps* ops; // null: there is no such loop
    int fd;             // the descriptor that the loop waits on; -1: there is none
    int timer_fd;       // a timer in it, and
    int64_t timer;      // the time that the timer stands at
    bool stale;         // the backend has another descriptor now than the one in fd
};

// What the user wants to be told of; src/embed fills it.
struct Observer {
    const ObserverOps* ops; // null: nothing, so far
    fiber_hooks_t hooks;    // once ops is set, before_switch and after_switch are not null
    Ambient* ambient;       // the ambient values in force; null: none has ever been
};

// What only the cord's thread touches.
struct CordWorld {
    int* errno_address; // this thread's errno,
    void* exceptions;   // and its state of C++ exceptions (__cxa_get_globals)
    Fiber* current;     // who runs; null between a fiber's end and the next one's turn
    int64_t budget;     // switches left until the next poll; at or below zero every switch takes the slow way
    RunQueue queue;
    Timers timers;
    Pace pace; // when to wake for them
    StackPool stacks;
    CordIo* io;                          // null until the first I/O
    void (*forget_closings)(Cord& cord); // those of its fibers, when none runs again; null: there has been none
    ForeignLoop loop;

    Fiber* main;
    uintptr_t main_identity; // by which locks know the main flow: from before it was one, if the thread was there then
    bool main_done;          // the function of the main flow has returned
    bool ends_process;       // it lost its main flow in a fork: when its last fiber has ended the process does,
    uint8_t last_class;      // by a fiber with such a stack
    alignas(8) uint32_t noswitch_depth; // of the fiber that runs,
    uint32_t noswitch_floor; // and of the library's own sections, in which functions of the user's run: it leaves these
    uint32_t fiber_count;    // slots held: the main flow, new, live, and dead but not joined
    uint32_t fiber_room;     // for how many the run queue and the timers have places
    uint32_t live_count;     // fibers that are neither dead nor daemons, without the main flow
    uint32_t daemon_count;   // daemons that are not dead
    uint32_t shared_waits;   // of its fibers that other cords may end
    ShortList<SharedWait> woken_waits; // of these, the ones that have ended, but whose fibers have not gone on yet
    ShortList<HeldLock> held;          // by its fibers,
    void (*holder_ended)(Cord& cord, Fiber* holder); // and what is done about it; null holder: all of them
    uint32_t select_turn;                            // with which case the next fiber_select begins
    ShortList<QuietWait> quiet_waits;                // of fibers that wait for others to end
    uint32_t shutdowns;                              // under way: the cord does not end before its daemons have
    bool leaving;                                    // the thread ends: no fiber runs again
    Fiber* stackless_first; // fibers whose first run waits for a stack, in order, through next_free
    Fiber* stackless_last;
    FreeSlots<Fiber> free_fibers;
    FreeSlots<Scope> free_scopes;
    FreeSlots<Child> free_children; // records of theirs
    uint32_t parents;               // scopes of its fibers that have children, or have had some
    bool cancelling;                // a children_cancel is under way, which works off
    Scope* due_scopes;              // scopes whose children are to be cancelled

    uint8_t hooked; // why every switch takes the slow way: bits of core/parts.h
    Observer observer;

    int64_t granted;       // what budget was last set to
    int64_t until_poll;    // instead of budget while hooks are wanted, which keep the budget at zero
    int64_t told_above;    // a budget: above it, what a switch has to do is to tell the user at most
    int64_t poll_interval; // switches between polls: what lies about poll_period_ns apart
    int64_t last_poll_ns;
    CordWork* work;          // null: it has none
    int64_t spin_ns;         // how long to look out for messages before sleeping
    int64_t spin_most_ns;    // the most that this may be
    int cpus;                // that the cords may run on, all together,
    int64_t cpus_counted_ns; // as of then
    uint64_t rings_owed;     // by those who replaced parked_on_eventfd, since the cord was opened
    void* tsan_dead;         // ThreadSanitizer's fiber of one that has ended, to be destroyed by the next
    const void* main_stack;  // bounds of the thread's own stack, as AddressSanitizer told them
    size_t main_stack_size;

    Executor executor;

    void* signal_stack; // of the thread, that debug/handlers.h has given it; null: none

    uint64_t gave_way; // times a fiber gave its thread away, up to the last time `granted` was set
    uint64_t instant_resumes;
    uint64_t polls;
    uint64_t blocking_polls;

    uint64_t switches() const { return gave_way + uint64_t(granted - budget) - instant_resumes; }
};

// How long a cord may look out for messages before it sleeps: about what it costs to be woken.
constexpr int64_t spin_most_ordinary_ns = 50'000;

constexpr uint32_t cord_name_max = 16; // what Linux keeps of a thread's name

struct CordStart {
    void* (*fn)(void*);
    void* arg;
    char name[cord_name_max];
    const cpu_set_t* affinity; // null: as the starting thread's
    size_t affinity_size;
};

// What the watchdog's thread has seen of a cord (debug/watchdog.h).
struct Watched {
    Fiber* fiber; // who ran; null: nobody
    uint32_t fiber_generation;
    uint32_t cord_generation;
    int64_t budget;
    uint64_t gave_way;
    uint64_t polls;
    int64_t since; // for how long it has been so
    uint32_t run;  // of which watchdog
    bool told;
};

struct alignas(64) Cord : CordWorld {
    // On a cache line that the thread only reads while it looks out for messages; what follows seldom changes.
    alignas(64) Inbox inbox;
    std::atomic<uint32_t> generation; // of the slot: odd while in use
    uint32_t index;
    Cord* next_free;
    Relaxed<int> doorbell_fd; // for parked_on_eventfd; -1: there is none
    Relaxed<bool> closing;    // it is being shut down and takes no new fibers
    Relaxed<bool> started;    // its thread was made by cord_start: it can be joined
    bool lost;                // its thread was the parent's, before a fork: the record is not used again, as it knows
                              // what memory was taken

    Relaxed<int> thread;            // as Linux numbers it
    Relaxed<bool> has_signal_stack; // on which a backtrace can be taken, as far as debug/handlers.h knows
    Watched watched;                // the watchdog's own

    Processors processors;
    std::atomic<uint32_t> descriptor_uses[64]; // by its fibers, see io/closing.h

    SpinLock lock; // of what follows
    bool ended;    // and not joined yet
    bool released; // nobody will join it
    char name[cord_name_max];
    void* result;
    ShortList<EndWait> joiners;

    Cord() = default;
};

// One pointer, and initial-exec (a flag of the build): a load relative to the thread register, without a call.
// Null also between the runs of a cord that a foreign loop runs (src/embed).
extern thread_local constinit Cord* this_cord;

using CordTable = SlotTable<Cord, Tag::cord, 16, 3>;
extern CordTable cords;

Cord* cord_open(); // null: no memory, or the calling thread may have none

Cord* cord_left_to_loop(); // the calling thread's cord between the runs of a foreign loop, as it is; null: no such

int cord_take(Cord** out);       // a record for a new cord, with an empty world. 0, -ENOMEM, -EAGAIN
void cord_give_back(Cord* cord); // the record's use has ended: another cord may have it

// The thread's function has returned: wakes the fibers that wait for the cord's end. If there is none, the record stays
// until the cord is joined.
void tell_cord_joiners(Cord& cord, void* result);

// The calling thread's cord, if it has one; a foreign loop's stays parked. For calls that only look at it, or change
// nothing that it waits for.
inline Cord* cord_if_any() {
    Cord* cord = this_cord;
    return cord ? cord : cord_left_to_loop();
}

extern Relaxed<const ThreadObserver*> thread_observer; // null: there is none, so far

extern Relaxed<bool> fork_refused; // the process was forked, and is to have no fibers

// Why the calling thread has no cord.
inline int no_cord() { return fork_refused ? -EPERM : environment ? -ENOTSUP : -ENOMEM; }

// The calling thread's cord; opened if there is none. Null: see no_cord().
inline Cord* cord_here() {
    Cord* cord = this_cord;
    return cord ? cord : cord_open();
}

// Ends the calling thread's cord, if it has one, as the end of the thread would. For its main flow.
void cord_close();

// Makes a cord and the thread that runs start.fn(start.arg) as its main flow. 0, -ENOMEM, -EAGAIN, -EINVAL.
int cord_start(const CordStart& start, uint64_t* id);

// Waits until a cord that was started has ended. 0 and its function's result; -ESRCH, or why the wait ended early.
int cord_join(Cord& here, Cord* cord, uint32_t generation, void** result, int64_t deadline);

// A call of the thread's own needs the cord, which may be parked between two runs of a foreign loop.
inline void cord_resume(Cord& cord) {
    if (!this_cord) cord.loop.ops->resume(cord);
}

// The fiber that acts in the place of another, its host, does so no more.
inline void executor_leave(Cord& cord) {
    if (cord.executor.host) cord.executor.ops->leave(cord);
}

// A tagged fiber's handle goes stale.
inline void tell_destroyed(Cord& cord, Fiber* fiber) {
    if (fiber->tag_kind && cord.observer.ops) cord.observer.ops->destroyed(cord, fiber);
    fiber->tag_kind = 0;
}

// Nobody will join it.
void cord_detach(Cord* cord, uint32_t generation);

// Ends the cord it is called on but for the calling fiber: no new fibers, a wait until grace, cancels, a wait until
// deadline. The number of fibers that are left; or why the wait ended early. -EBUSY: it works for a pool.
int cord_shutdown(Cord& cord, int64_t grace, int64_t deadline);

// Around a fork: nobody makes a cord or ends one meanwhile; and in the child of one: there is only this one, or none.
void cords_hold();
void cords_let_go();
void cords_forked(Cord* own);

} // namespace fiberrt
