// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord: everything that one thread needs to run fibers. Its run queue, timers, stacks, free slots and backend; the
// fiber that runs; the counters.
//
// A cord is opened by the first call on a thread that needs one, or made with its thread by cord_start, and ends with
// the thread. Only its thread touches the base CordWorld; other threads may touch the members of Cord itself. The
// record is a slot, like a fiber's. The slot is never unmapped; a later cord may reuse it.
#pragma once

#include "base/list.h"
#include "base/relaxed.h"
#include "base/spin_lock.h"
#include "core/environment.h"
#include "core/fiber.h"
#include "core/inbox.h"
#include "core/parts.h"
#include "core/processors.h"
#include "core/run_queue.h"
#include "core/scope.h"
#include "core/stack_pool.h"
#include "core/timers.h"
#include "core/backend.h"
#include "core/timer_coalescing.h"

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
    Fiber* fiber;           // the fiber on whose stack their steps run; null: there has been none
    Fiber* offered_first;   // the first runnable fiber without a step that no fiber_exchange has taken; list: next_free
    Fiber* offered_last;
    Wait* exchanger;   // the Wait of the fiber in fiber_exchange, until that fiber continues; null: none waits
    Fiber* entered_by; // the fiber that has entered a fiber without a stack, which is now current; or null
};

// The foreign loop that has the thread; src/embed fills it.
struct ForeignLoop {
    const LoopOps* ops; // null: there is no such loop
    int fd;             // the descriptor that the loop waits on; -1: there is none
    int timer_fd;       // a timer in it
    int64_t timer;      // the time that timer_fd is set to
    bool stale;         // the backend has another descriptor now than the one in fd
};

// The user's hooks and ambient values; src/embed fills it.
struct Observer {
    const ObserverOps* ops; // null: the user has set none yet
    fiber_hooks_t hooks;    // once ops is set, before_switch and after_switch are not null
    Ambient* ambient;       // the ambient values in force; null: none has ever been
};

// What the recorder notes of the cord; src/record fills it.
struct Recorder {
    const RecorderOps* ops; // not null while `hooked` has hooked_by_recorder
    void* record;           // the recorder's own; null: the cord has never been recorded
};

// The part of a cord that only its thread touches. Each group's comment names the file that owns the group: change its
// meaning there. Other files also write single members; core/cord.cc (which creates the world) and src/fork (which
// repairs it in the child) also write members of any group. A group is valid while the cord is in use, unless its
// comment says otherwise. A member outside a group is a group by itself.
struct CordWorld {
    // The thread's state that a switch saves and restores. core/cord.cc owns it; arch/*.S read it, by arch/offsets.h.
    // In a simulation all cords share one thread (sim/sim_cords.cc).
    struct ThreadState {
        int* errno_address; // this thread's errno
        void* exceptions;   // its state of C++ exceptions (__cxa_get_globals)
    };
    ThreadState thread_state;

    // The scheduler: what every switch needs, in the first cache line. core/scheduler.cc owns it.
    struct Sched {
        Fiber* current; // the fiber that runs; null after a fiber's end until the next fiber runs
        // Switches left until the next poll. At or below zero every switch takes the slow way. While every switch is
        // slow, it counts down from zero: see Poll::hooked_budget.
        int64_t budget;
        RunQueue queue;
    };
    Sched sched;

    Timers timers;
    TimerCoalescing coalescing; // when a cord that sleeps wakes for its timers
    StackPool stacks;

    CordIo* io; // null until the first I/O. io/io.cc owns it
    // Drops the cord's entries from the list of descriptors being closed, when no fiber of the cord runs again. Set at
    // the first such entry; null before. io/closing.cc owns it.
    void (*discard_closings)(Cord& cord);

    ForeignLoop loop;

    // The thread's own flow of control, as a fiber. core/cord.cc owns it, src/fork ends_process and last_class.
    struct MainFlow {
        Fiber* fiber;
        // Locks record this as holder. pthread_self(), so that locks taken before the thread had a cord still match;
        // the fiber's address if cord_start made the thread.
        uintptr_t identity;
        bool done;          // its function has returned
        bool ends_process;  // in a fork's child without a main flow: exit when no fiber is left
        uint8_t last_class; // stack class of the fiber that then calls exit()
    };
    MainFlow main_flow;

    // No-switch sections of the running fiber. core/noswitch.h owns it, and counts depth for fiber_noswitch_enter and
    // fiber_noswitch_leave. Where the library calls the user's functions inside its own section, it writes both.
    struct NoSwitch {
        uint32_t depth;
        uint32_t floor; // depth that user code may not leave: the library called it inside its own section
    };
    NoSwitch no_switch;

    // How many fibers there are. core/life.cc owns it.
    struct Counts {
        uint32_t fibers;  // slots held: the main flow, new, live, and dead but not joined
        uint32_t room;    // for how many fibers the run queue and the timers have places; 0: see creation_observer
        uint32_t live;    // fibers that are neither dead nor daemons, without the main flow
        uint32_t daemons; // daemons that are not dead
    };
    Counts counts;

    // Waits of the cord's fibers that other cords may end. core/shared_wait.cc owns it.
    struct SharedWaits {
        uint32_t count;
        ShortList<SharedWait> ended; // waits that have ended, but whose fibers have not continued yet
    };
    SharedWaits shared;

    // Locks, and select. sync/mutex_holders.cc owns it, sync/select.cc select_first_case.
    struct Sync {
        ShortList<HeldLock> held_locks;                  // by the cord's fibers
        void (*holder_ended)(Cord& cord, Fiber* holder); // passes on what a fiber held; null holder: what all held
        uint32_t select_first_case;                      // with which case the next fiber_select begins
    };
    Sync sync;

    // The end of the cord. core/shutdown.cc owns it, core/life.cc quiet_waits, core/cord.cc leaving.
    struct Shutdown {
        ShortList<QuietWait> quiet_waits; // of fibers that wait for others to end
        uint32_t under_way;               // calls of cord_shutdown: the cord does not end before its daemons have
        bool leaving;                     // the thread ends: no fiber runs again
    };
    Shutdown shutdown;

    // Fibers whose first run waits for a stack, in order, through next_free. core/scheduler.cc owns it.
    struct AwaitingStack {
        Fiber* first;
        Fiber* last;
    };
    AwaitingStack awaiting_stack;

    // Free slots that the cord may take without a lock. SlotTable (core/slots.h) owns it.
    struct Free {
        FreeSlots<Fiber> fibers;
        FreeSlots<Scope> scopes;
        FreeSlots<Child> children; // records of scopes' children
    };
    Free free;

    // Scopes that have children. core/children.cc owns it.
    struct Children {
        uint32_t parents; // scopes of the cord's fibers that have children, or have had some
        bool cancelling;  // a children_cancel is running; it empties `due`
        Scope* due;       // scopes whose children must be cancelled
    };
    Children children;

    uint8_t hooked; // why every switch takes the slow way: bits of core/parts.h
    Observer observer;
    Recorder recorder;

    // When to poll. core/scheduler.cc owns it.
    struct Poll {
        int64_t full_budget;   // what sched.budget was last set to
        int64_t hooked_budget; // the budget last set, also while every switch is slow: see budget_left()
        // While sched.budget is above this, no poll is due, and a switch at most calls the user's hooks and the
        // recorder. INT64_MAX unless only these make switches slow.
        int64_t hooks_only_above;
        int (*make_switch)(Cord& cord, Fiber* me, Fiber* next); // calls them, and makes the switch
        int64_t interval; // switches between polls, adapted so that polls are about poll_period_ns apart
        int64_t last_ns;  // when the last poll was
    };
    Poll poll;

    // On whose stack the thread is, when this is not `current`, and where it sleeps. For looks of other threads
    // (debug/look.cc). core/scheduler.cc owns it, embed/user_hooks.cc hooked_from.
    struct StackInUse {
        Fiber* hooked_from;   // the fiber that the last switch with hooks has left, or is about to leave
        Fiber* sleeper;       // the fiber on whose stack the thread sleeps or waits for work
        const void* sleep_pc; // an address in the function that does this
        char* sleep_cfa;      // the address of the function's frame (CFA); null: the thread does not sleep or wait
    };
    StackInUse stack_in_use;

    CordWork* work; // null: the cord does not work for a pool. src/pool fills it

    // How to sleep. core/inbox.cc owns it, src/pool spin_most_ns, core/processors.cc cpus.
    struct Sleep {
        int64_t spin_ns;         // how long to spin for messages before sleeping
        int64_t spin_most_ns;    // the greatest value that spin_ns may have
        int cpus;                // processors that all cords together may use
        int64_t cpus_counted_ns; // when cpus was counted
        // Rings of the doorbell, since the cord was opened, by threads that replaced asleep_on_eventfd; rings still to
        // come are counted too.
        uint64_t rings_owed;
    };
    Sleep sleep;

    // State for telling sanitizers of switches. core/hooks.cc owns it.
    struct Sanitizers {
        void* tsan_dead;        // ThreadSanitizer's record of a fiber that has ended; the next fiber destroys it
        const void* main_stack; // bounds of the thread's own stack, as AddressSanitizer told them
        size_t main_stack_size;
    };
    Sanitizers sanitizers;

    Executor executor;

    void* signal_stack; // the thread's, given to it by debug/handlers.h; null: none

    // For statistics and the watchdog. core/scheduler.cc owns it, core/inbox.cc blocking_polls.
    struct Counters {
        uint64_t gave_way;        // times a fiber gave its thread away, up to the last time poll.full_budget was set
        uint64_t instant_resumes; // switches that were counted but not made: the fiber continued, or a call was charged
        uint64_t polls;
        uint64_t blocking_polls;
    };
    Counters counters;

    uint64_t switches() const {
        return counters.gave_way + uint64_t(poll.full_budget - sched.budget) - counters.instant_resumes;
    }
};

// How long a cord may spin for messages before it sleeps: about as long as a wakeup from sleep takes.
constexpr int64_t spin_most_ordinary_ns = 50'000;

constexpr uint32_t cord_name_max = 16; // Linux keeps no more of a thread's name

struct CordStart {
    void* (*fn)(void*);
    void* arg;
    char name[cord_name_max];
    const cpu_set_t* affinity; // null: as the starting thread's
    size_t affinity_size;
};

// The watchdog's notes on a cord at its last look (debug/watchdog.h).
struct Watched {
    Fiber* fiber; // the fiber that ran; null: none
    uint32_t fiber_generation;
    uint32_t cord_generation;
    int64_t budget;
    uint64_t gave_way;
    uint64_t polls;
    int64_t since; // clock_now() when the watchdog first saw this
    uint32_t run;  // number of the watchdog that took these notes
    bool reported;
};

// The world is a base, so that cord_allocate can make it anew for each cord that uses the record. Other threads may
// touch the members of Cord itself, even between two such cords.
struct alignas(64) Cord : CordWorld {
    // On a cache line that the thread only reads while it spins for messages; the next members seldom change.
    alignas(64) Inbox inbox;
    std::atomic<uint32_t> generation; // of the slot: odd while in use
    uint32_t index;
    Cord* next_free;
    Relaxed<int> doorbell_fd; // for asleep_on_eventfd; -1: there is none
    Relaxed<bool> closing;    // it is being shut down and takes no new fibers
    Relaxed<bool> started;    // its thread was made by cord_start: it can be joined
    bool lost;                // in a fork's child: its thread stayed in the parent. The record is not used again,
                              // because it holds pointers to memory that was allocated for the cord

    Relaxed<int> thread;            // Linux's number of the thread
    Relaxed<bool> has_signal_stack; // the thread has one on which a handler can take a backtrace (debug/handlers.h)
    Watched watched;                // the watchdog's own

    Processors processors;
    std::atomic<uint32_t> descriptor_uses[1024]; // by its fibers, see io/closing.h

    SpinLock lock; // guards the members below
    bool ended;    // and not joined yet
    bool released; // detached: its end frees the record
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

// Opens a cord for the calling thread, or takes its cord back from a foreign loop. Null: see no_cord().
Cord* cord_open();

// The calling thread's cord, if it is suspended between the runs of a foreign loop; it stays suspended. Null: no such.
Cord* suspended_cord();

int cord_allocate(Cord** out); // a record for a new cord, with an empty world. 0, -ENOMEM, -EAGAIN
void cord_free(Cord* cord);    // the cord has ended: another cord may use the record

// The thread's function has returned: wakes the fibers that wait for the cord's end. If there is none, the record stays
// until the cord is joined.
void wake_cord_joiners(Cord& cord, void* result);

// The calling thread's cord, if it has one; a foreign loop's cord stays suspended. For calls that only look at the
// cord, or change nothing that it waits for.
inline Cord* cord_if_any() {
    Cord* cord = this_cord;
    return cord ? cord : suspended_cord();
}

extern Relaxed<const ThreadObserver*> thread_observer; // null: there is none, so far
// Begins to record a cord that its thread has just entered. Null: nothing has ever been recorded (src/record).
using RecorderBegins = void (*)(Cord& cord);
extern Relaxed<RecorderBegins> recorder_begins;

// Tells the recorder of a switch that the caller makes. from null: the fiber that ran has ended.
inline void record_switch(Cord& cord, Fiber* from, Fiber* to) {
    if (cord.hooked & hooked_by_recorder) cord.recorder.ops->switched(cord, from, to);
}

// Tells the recorder and the user's hooks of a switch that the caller makes.
inline void observers_switched(Cord& cord, Fiber* from, Fiber* to) {
    record_switch(cord, from, to);
    if (cord.hooked & hooked_by_any_user) cord.observer.ops->switched(cord, from, to);
}

// Tells the recorder that a stackless fiber was handed out to its host, which runs it without a switch, or given back.
inline void record_change_of_hands(Cord& cord, Fiber* fiber) {
    if (cord.hooked & hooked_by_recorder) [[unlikely]]
        cord.recorder.ops->changes_hands(cord, fiber);
}

// Tells the recorder that a fiber has ended, while the fiber's handle is still valid.
inline void record_end(Cord& cord, Fiber* fiber) {
    if (cord.hooked & hooked_by_recorder) [[unlikely]]
        cord.recorder.ops->ended(cord, fiber);
}

// Null: there is none. While there is one, Counts::room is 0, except on cords that have not noticed yet.
extern Relaxed<CreationObserver> creation_observer;

extern Relaxed<bool> fork_refused; // the process was forked, and may have no fibers

// Why the calling thread has no cord.
// coverage where called: no cord
inline int no_cord() { return fork_refused ? -EPERM : environment ? -ENOTSUP : -ENOMEM; }

// The calling thread's cord; opened if there is none. Null: see no_cord().
inline Cord* cord_here() {
    Cord* cord = this_cord;
    return cord ? cord : cord_open();
}

// Ends the calling thread's cord, if it has one, as the end of the thread would. The main flow calls it.
void cord_close();

// Makes a cord and the thread that runs start.fn(start.arg) as its main flow. 0, -ENOMEM, -EAGAIN, -EINVAL.
int cord_start(const CordStart& start, uint64_t* id);

// Waits until a cord that was started has ended. 0 and its function's result; -ESRCH, or why the wait ended early.
int cord_join(Cord& here, Cord* cord, uint32_t generation, void** result, int64_t deadline);

// Takes the cord back from a foreign loop, if it is suspended between two runs: the thread makes a call that needs it.
inline void cord_resume(Cord& cord) {
    if (!this_cord) cord.loop.ops->resume(cord);
}

// Makes the fiber that entered a fiber without a stack the current one again, if there is such a fiber.
inline void executor_leave(Cord& cord) {
    if (cord.executor.entered_by) cord.executor.ops->leave(cord);
}

// Tells the user's hooks that a fiber's handle goes stale, if the fiber is tagged.
inline void notify_destroyed(Cord& cord, Fiber* fiber) {
    if (fiber->extras.tag_kind && cord.observer.ops) cord.observer.ops->destroyed(cord, fiber);
    fiber->extras.tag_kind = 0;
}

// Gives up the right to join the cord: its record is freed when the cord ends.
void cord_detach(Cord* cord, uint32_t generation);

// Ends all fibers of the calling thread's cord except the caller: refuses new ones, waits until grace, cancels the
// rest, and waits until deadline. Returns the number of fibers left, or why the wait ended early; -EBUSY: the cord
// works for a pool.
int cord_shutdown(Cord& cord, int64_t grace, int64_t deadline);

// Around a fork: no thread makes or ends a cord between these two.
void cords_lock();
void cords_unlock();
void cords_forked(Cord* own); // in the child: the only cord that is left; null: none is

} // namespace fiberrt
