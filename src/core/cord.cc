// SPDX-License-Identifier: MIT OR Apache-2.0
// How cords are opened and how they end, with their threads.
#include "core/cord.h"

#include "base/check.h"
#include "base/keep_errno.h"
#include "base/signals.h"
#include "base/try_once.h"
#include "core/begin.h"
#include "core/hooks.h"
#include "core/life.h"
#include "core/noswitch.h"
#include "core/shutdown.h"
#include "core/backend.h"
#include "core/scheduler.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// The linker's names for the begin and the end of what FIBERRT_INITIALIZER leaves.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" [[gnu::visibility("hidden")]] const fiberrt::Initializer __start_fiberrt_begin[], __stop_fiberrt_begin[];

namespace fiberrt {

// The C++ library's state of exceptions of the calling thread. The <cxxabi.h> of libc++ does not declare it. Visible,
// also in a build that hides all other names (FIBERRT_PRIVATE): it is the C++ library's.
[[gnu::visibility("default")]] void* exceptions_of_thread() asm("__cxa_get_globals");

namespace {

pthread_key_t thread_exit_key;
constinit TryOnce key_made; // done: thread_exit_key, which tells whether a thread has a cord, is valid
constinit TryOnce first_cord_prepared;

void free_world(Cord& cord) {
    fibers.give_back_all(cord.free.fibers);
    scopes.give_back_all(cord.free.scopes);
    child_records.give_back_all(cord.free.children);
    cord.sched.queue.release();
    cord.timers.release();
    cord.stacks.release();
}

int cord_make(Cord** out) {
    Cord* cord;
    int error = cord_allocate(&cord);
    if (error) return error;
    cord->poll.interval = 64;
    cord->sleep.spin_most_ns = spin_most_ordinary_ns;
    set_hooked(*cord, hooks::wanted() ? hooked_by_sanitizer : 0);
    cord->doorbell_fd = -1;
    cord->closing = false;
    cord->started = false;
    {
        Locked locked(cord->lock); // another thread may be looking at all cords
        cord->ended = false;
        cord->released = false;
        cord->name[0] = '\0';
    }
    error = fiber_create(*cord, Kind::main_flow, &cord->main_flow.fiber);
    if (error) { // coverage: no memory
        free_world(*cord);
        CordTable::end_use(cord);
        cord_free(cord);
        return error;
    }
    cord->main_flow.fiber->sched.state = State::running;
    cord->sched.current = cord->main_flow.fiber;
    cord->inbox.open();
    // So that the recorder, which takes these locks between setting recorder_begins and looking for cords, either finds
    // this cord's inbox open, or is found by cord_enter_thread().
    cords_lock();
    cords_unlock();
    *out = cord;
    return 0;
}

// Frees a cord that has no thread yet.
void cord_unmake(Cord* cord) {
    fiber_free(*cord, cord->main_flow.fiber);
    free_world(*cord);
    cord->inbox.close();
    CordTable::end_use(cord);
    cord_free(cord);
}

// Makes the calling thread the cord's thread.
void cord_enter_thread(Cord& cord) {
    cord.thread_state.errno_address = &errno;
    cord.thread_state.exceptions = exceptions_of_thread();
    cord.poll.last_ns = clock_now();
    processors_count(cord);
    cord.main_flow.identity = cord.started ? uintptr_t(cord.main_flow.fiber) : uintptr_t(pthread_self());
    cord.thread = int(syscall(SYS_gettid));
    cord.has_signal_stack = false;
    cord_awake();
    this_cord = &cord;
    if (const ThreadObserver* observer = thread_observer) observer->begins(cord);
    if (RecorderBegins begins = recorder_begins) begins(cord);
}

// Withdraws the waits that other cords may be about to end, and ends the cord's I/O: no fiber of the cord runs again.
void withdraw_shared_waits(Cord& cord) {
    cord.sleep.spin_ns = 0; // the run queue may not be empty, and no fiber will empty it
    cord.shutdown.leaving = true;
    if (cord.shared.count || cord.children.parents) {
        fibers.each([&](Fiber* fiber) {
            if (fiber->cord.load(std::memory_order_relaxed) != &cord) return;
            stop(cord, fiber, -ECANCELED);
            for (Scope* s = fiber->scopes; s; s = s->outer) {
                if (s->has_children) children_discard(cord, s);
            }
        });
    }
    // Before the wait: that may be for another cord that closes a descriptor, ends too, and waits until ours is not
    // used.
    if (cord.io) cord.io->end(cord);
    for (;;) {
        shared_waits_orphaned(cord); // the cord's waits are in no list any more: locks and items go to other cords
        if (!cord.shared.count) break;
        sleep(cord, never); // until the waits arrive that were completed first, or cannot be withdrawn
    }
    if (cord.sync.holder_ended) cord.sync.holder_ended(cord, nullptr);
}

void fiber_discard(Cord& cord, Fiber* fiber) {
    if (fiber->cord.load(std::memory_order_relaxed) != &cord) return;
    while (fiber->scopes) scope_pop(cord, fiber);
    if (fiber->values.locals) fiber->values.locals->ops->free(fiber);
    record_end(cord, fiber);
    if (fiber != cord.main_flow.fiber) fiber->sched.state = State::dead; // so that no call by a hook wakes or ends it
    notify_destroyed(cord, fiber);
    hooks::fiber_gone(fiber);
    EndWait* joiners = joiners_elsewhere(fiber);
    fiber->empty();
    fiber_free(cord, fiber);
    end_waits_complete(joiners, nullptr, -EOWNERDEAD);
}

// Ends the cord with its thread: its fibers do not run again, and objects on their stacks are not destroyed.
void cord_leave_thread(Cord& cord) {
    cord_resume(cord);
    executor_leave(cord);
    FIBERRT_CHECK(cord.sched.current == cord.main_flow.fiber); // a thread may end in its main flow only
    Fiber* main = cord.main_flow.fiber;
    while (main->scopes) scope_pop(cord, main);
    if (main->values.locals) {
        cord.no_switch.depth = cord.no_switch.floor = 1;
        noswitch_entered();
        pending_update(cord, main);
        main->values.locals->ops->destroy(main);
    }
    if (cord.loop.ops) cord.loop.ops->end(cord);
    if (cord.work) cord.work->ops->abandon(cord);
    withdraw_shared_waits(cord);
    if (cord.discard_closings) cord.discard_closings(cord);
    receive_last(cord);
    if (cord.counts.fibers > 1) args_free(cord);
    if (cord.hooked & hooked_by_user) cord.closing = true; // no more fibers, which a destroy hook may try to make
    // Rare: else every thread's exit would look at every fiber there ever was.
    if (cord.counts.fibers > 1) {
        fibers.each([&](Fiber* fiber) {
            if (fiber != main) fiber_discard(cord, fiber);
        });
    }
    fiber_discard(cord, main); // last: for the hooks of the others it is the calling fiber
    FIBERRT_CHECK(cord.counts.fibers == 0);
    if (cord.observer.ops) cord.observer.ops->end(cord);
    if (cord.hooked & hooked_by_recorder) cord.recorder.ops->end(cord);
    free_world(cord);
    cord_asleep();
    this_cord = nullptr;
    if (const ThreadObserver* observer = thread_observer) observer->ends(cord);
}

// Closes the inbox after the cord's last fiber has ended, so that later messages are refused. False: a message came
// first, and has been received: it may have brought a fiber. While there are daemons, which may wait for messages, the
// inbox stays open; a fiber that then arrives at the last moment does not run.
bool nothing_more_comes(Cord& cord) {
    if (cord.counts.daemons || cord.inbox.close_if_empty()) return true;
    receive_all(cord);
    return false;
}

// Begins a cord's own thread; a simulated cord has none. False: there was no memory for the key's value, by which the
// thread's exit is noticed.
bool begin_thread(Cord& cord) {
    if (cord.name[0]) pthread_setname_np(pthread_self(), cord.name);
    return pthread_setspecific(thread_exit_key, &cord) == 0; // in case the function leaves by pthread_exit
}

// Ends joins of the main flow, whose function has returned. The thread now waits for its fibers, so a fiber that waited
// for the thread would keep it for ever.
void end_waits_for_main(Cord& cord) {
    Fiber* main = cord.main_flow.fiber;
    EndWait* elsewhere = main_flow_returned(main);
    while (JoinWait* joiner = main->joiners.pop_front()) wake(cord, joiner, -EOWNERDEAD);
    end_waits_complete(elsewhere, nullptr, -EOWNERDEAD);
}

void* run_main(Cord& cord) {
    cord_enter_thread(cord);
    void* result = cord.main_flow.fiber->call.fn(cord.main_flow.fiber->call.arg);
    cord_resume(cord);
    executor_leave(cord);
    cord.no_switch.depth = 0; // ends a section that the function left open
    if (cord.main_flow.fiber->extras.locks_held)
        cord.sync.holder_ended(cord, cord.main_flow.fiber); // fibers that the thread waits for may want the locks
    scopes_end(cord, cord.main_flow.fiber);                 // their deadlines would end the wait below
    while (cord.work) cord.work->ops->leave(cord);          // returns when the pool's tasks on this cord have ended
    cord.main_flow.done = true;
    end_waits_for_main(cord);
    wake_quiet_waits(cord);
    do {
        wait_until_quiet(cord, never, false,
                         [&] { return cord.counts.live == 0 && !(cord.shutdown.under_way && cord.counts.daemons); });
    } while (!nothing_more_comes(cord));
    if (!environment) pthread_setspecific(thread_exit_key, nullptr);
    cord_leave_thread(cord);
    wake_cord_joiners(cord, result);
    return nullptr;
}

void thread_exits(void* argument);

void* run_cord(void* argument) { // coverage: uncounted
    Cord& cord = *static_cast<Cord*>(argument);
    if (environment || begin_thread(cord)) return run_main(cord);
    // Without the key, joiners would wait for ever if the function leaves by pthread_exit. A cleanup handler needs no
    // memory. It runs before the destructors of thread-local variables, so these then have no cord.
    void* result;
    pthread_cleanup_push(thread_exits, &cord);
    result = run_main(cord);
    pthread_cleanup_pop(0);
    return result;
}

// Takes the cord's thread attributes. 0 or -E...
int make_cord_thread(Cord& cord, const CordStart& start) {
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error) return -error;
    // Detached: a joiner of the cord waits as a fiber, and must not block its thread while the destructors of
    // thread-local variables run after the cord's end.
    error = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (!error) error = pthread_attr_setguardsize(&attr, StackPool::guard_default);
    if (!error) {
        pthread_t thread; // unused: the thread itself tells the cord its number
        error = start.affinity ? -thread_start_on(start.affinity, start.affinity_size, &thread, &attr, run_cord, &cord)
                               : -thread_start(&thread, &attr, run_cord, &cord);
    }
    pthread_attr_destroy(&attr);
    return -error;
}

void thread_exits(void* argument) {
    auto* cord = static_cast<Cord*>(argument);
    cord_leave_thread(*cord);
    if (cord->started) {
        wake_cord_joiners(*cord, nullptr);
        return;
    }
    {
        Locked locked(cord->lock); // another thread may be reading the name
        CordTable::end_use(cord);
    }
    cord_free(cord);
    if (environment) environment->thread_ends();
}

} // namespace

namespace {

bool begin_all(When when) {
    for (const Initializer* each = __start_fiberrt_begin; each != __stop_fiberrt_begin; each++) {
        if (each->when == when && !each->begin()) return false;
    }
    return true;
}

bool first_query() {
    return key_made(
        [] { return begin_all(When::first_query) && pthread_key_create(&thread_exit_key, thread_exits) == 0; });
}

} // namespace

int environment_begin() {
    if (!first_cord_prepared([] { return begin_all(When::first_cord) && begin_all(When::ready); })) return -ENOMEM;
    return environment && !environment->admits() ? -ENOTSUP : 0;
}

bool process_begin() { return environment_begin() != -ENOMEM && first_query(); }

Cord* suspended_cord() { return first_query() ? static_cast<Cord*>(pthread_getspecific(thread_exit_key)) : nullptr; }

Cord* cord_open() { // coverage: no memory
    KeepErrno keep;
    if (environment_begin() < 0 || !first_query()) return nullptr;
    Cord* cord = suspended_cord();
    if (cord) {
        cord->loop.ops->resume(*cord);
        return cord;
    }
    if (fork_refused || cord_make(&cord) < 0) return nullptr;
    if (environment && environment->open(*cord) < 0) {
        cord_unmake(cord);
        return nullptr;
    }
    if (pthread_setspecific(thread_exit_key, cord) != 0) {
        if (cord->io) cord->io->end(*cord);
        cord_unmake(cord);
        return nullptr;
    }
    cord_enter_thread(*cord);
    return cord;
}

void cord_close() {
    Cord* cord = cord_if_any();
    if (!cord) return;
    pthread_setspecific(thread_exit_key, nullptr);
    thread_exits(cord);
}

int cord_start(const CordStart& start, uint64_t* id) {
    KeepErrno keep;
    if (int error = environment_begin()) return error;
    if (!first_query()) return -ENOMEM;
    if (fork_refused) return -EPERM;
    if (environment && !this_cord && !cord_open()) return -ENOMEM; // the first cord, whose thread all others share
    Cord* cord;
    int error = cord_make(&cord);
    if (error) return error;
    cord->started = true;
    {
        Locked locked(cord->lock);
        memcpy(cord->name, start.name, sizeof cord->name);
    }
    cord->main_flow.fiber->call.fn = start.fn;
    cord->main_flow.fiber->call.arg = start.arg;
    uint64_t handle = CordTable::id_of(cord);
    error = environment ? environment->start(*cord, run_cord) : make_cord_thread(*cord, start);
    if (error) {
        cord_unmake(cord);
        return error;
    }
    *id = handle;
    in_between();
    return 0;
}

} // namespace fiberrt
