/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fiberrt.h - fibers for C: functions on their own stacks that wait without blocking their thread.
 *
 *     #include <fiberrt.h>
 *     #include <stdio.h>
 *
 *     static void *hello(void *name) {
 *         fiber_sleep(FIBER_MSEC(10)); // this fiber waits; its thread runs the others
 *         printf("hello, %s\n", (char *)name);
 *         return NULL;
 *     }
 *
 *     int main(void) {
 *         fiber_t one, two;
 *         fiber_spawn(&one, hello, "one");
 *         fiber_spawn(&two, hello, "two");
 *         return fiber_join(one, NULL) || fiber_join(two, NULL); // 10 ms for both
 *     }
 *
 * A FIBER is a function on a stack of its own. It gives its thread away only inside calls that say "Switches: yes". A
 * CORD is a thread's scheduler: run queue, timers, and the backend that performs I/O. The first call that needs one
 * opens it; fiber_cord_start makes a thread with a cord. The code on the thread's own stack is the cord's MAIN FLOW, a
 * fiber like the others. A fiber never changes its thread. When a thread exits, its live fibers never run again: their
 * operations end, and their handles are stale.
 *
 * Results. Functions return int, or int64_t for counts: zero or more is success, less than zero is -E... from
 * <errno.h>. They never set errno. Descriptors, and objects that arguments point to, stay the caller's: the library
 * copies texts, arrays, options and attributes during the call, and never follows a pointer that it only hands on (arg,
 * reason, value). Every call that takes a handle can return
 *   -EINVAL  the handle is zero, of another type, or not made by the library;
 *   -ESRCH   the object is gone; handles are never reused.
 * Every call that says "Switches: yes" can return, before it does anything,
 *   -EPERM     the caller is inside a no-switch section (fiber_noswitch_enter);
 *   -ECANCELED the calling fiber is cancelled;
 *   -EINTR     the calling fiber was interrupted (fiber_interrupt); once;
 *   -ETIMEDOUT the deadline of a scope of the calling fiber has passed (-ECANCELED if that scope was cancelled);
 * and the last three also when that happens during the wait. Completion comes first, then cancel, interrupt, timeout.
 * These errors are about the caller, not a peer; fiber_scope_close tells -ETIMEDOUT from a connection's own ETIMEDOUT.
 * A refused call does not wait: a loop that ignores -ECANCELED lets the other fibers run only once in some hundred
 * calls. Calls that need a cord ("Where: a fiber") can return -ENOMEM, and in a simulation (docs/simulation.md)
 * -ENOTSUP on any thread but the first. A wait of a main flow that can never end (one cord, no other thread ever made,
 * no runnable fiber, no timer, no operation) returns -EDEADLK.
 *
 * Threads. Handles work from every thread. A call about a fiber of another cord sends that cord a message: 0 means that
 * it was sent, even if the fiber ends first. The cord acts on it when it polls (looks for I/O, timers and messages):
 * after a bounded number of switches, or at once if it sleeps. Messages from one thread to one fiber that meet on the
 * way act in the order wakeup, cancel, interrupt, detach.
 *
 * Time is int64_t nanoseconds of CLOCK_MONOTONIC, or of a simulation's clock. A negative duration is -EINVAL, 0 tries
 * once, FIBER_FOREVER waits without limit. A waiting function x_timeout is x with a limit: Where, Switches and errors
 * are those of x, and -ETIMEDOUT after timeout_ns. Deadlines come in order and never early; an idle thread notices them
 * late by the kernel's timer slack (50 us by default). Deadlines close together may share a wakeup: each is then late
 * by at most an eighth of its duration, never more than 1 ms.
 *
 * Each fiber has its own registers, floating-point control words, errno, C++ exceptions in flight, fiber-local values
 * and scopes. Fibers share their thread's thread_local variables and signal mask.
 *   - Call no function of this header from a signal handler.
 *   - Do not call pthread_exit in a fiber other than the main flow. Do not call pthread_cancel on a thread that may run
 *     such a fiber or be inside a call of this header, unless its comment allows it; use fiber_cancel.
 *   - Returning from main, or exit(), ends the process; fibers run again only if a function that exit() calls waits.
 *   - Any fiber may call fork(): see "Forks".
 *
 * "Where" names the allowed callers: "anywhere" is any thread, and outside a simulation the call opens no cord; "a
 * fiber" is any fiber or main flow, and the call opens the thread's cord. The "Defaults" of a section hold unless a
 * comment says otherwise.
 */
#ifndef FIBERRT_H
#define FIBERRT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The release of this header; fiber_version returns the release of the library. */
#define FIBERRT_VERSION_MAJOR 0
#define FIBERRT_VERSION_MINOR 1
#define FIBERRT_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* Programs link with fiberrt_ + the full name, so that a program's function of the plain name never replaces the
 * library's. The shared library exports the plain names too, for dlsym. */
#define FIBERRT_LINKNAME(name) __asm__("fiberrt_" #name)

/* The visibility of the functions. A program that compiles the library into itself may define it before the #include. */
#ifndef FIBERRT_API
#define FIBERRT_API __attribute__((visibility("default")))
#endif

/* Marks functions whose result the caller must check. Defined as nothing before the #include, it switches the warnings
 * off. */
#ifndef FIBERRT_CHECK_RESULT
#define FIBERRT_CHECK_RESULT __attribute__((warn_unused_result))
#endif

/* Handles: plain values, copied freely; zero is no object. */
typedef struct { uint64_t id; } fiber_t;       /* a fiber */
typedef struct { uint64_t id; } fiber_cord_t;  /* a cord */
typedef struct { uint64_t id; } fiber_scope_t; /* a scope: a deadline, and child fibers */
typedef struct { uint64_t id; } fiber_key_t;   /* a key of fiber-local values */
typedef struct { uint64_t id; } fiber_chan_t;  /* a channel */
typedef struct { uint64_t id; } fiber_pool_t;  /* a pool: threads that run tasks */

typedef struct fiber_attr fiber_attr_t;                 /* attributes of a new fiber */
typedef struct fiber_cord_attr fiber_cord_attr_t;       /* attributes of a new cord */
typedef struct fiber_pool_attr fiber_pool_attr_t;       /* attributes of a new pool */
typedef struct fiber_process_attr fiber_process_attr_t; /* attributes of a new child process */

/* The result of a fiber that was cancelled before its first run. */
#define FIBER_CANCELLED ((void *)(intptr_t)-1)

/* Durations. The multiplication is not checked. */
#define FIBER_FOREVER INT64_MAX
#define FIBER_USEC(n) ((int64_t)(n) * 1000)
#define FIBER_MSEC(n) ((int64_t)(n) * 1000000)
#define FIBER_SEC(n) ((int64_t)(n) * 1000000000)

/* The smallest, largest and default stack size, in bytes (fiber_attr_set_stack_size). */
#define FIBER_STACK_MIN ((size_t)16384)
#define FIBER_STACK_MAX ((size_t)1 << 30)
#define FIBER_STACK_DEFAULT ((size_t)262144)

/* Arguments of fiber_attr_set_guard. */
#define FIBER_GUARD_REQUIRE 0 /* the default: a guard, or no stack (fiber_start and fiber_join return -EAGAIN) */
#define FIBER_GUARD_PREFER 1  /* a guard as long as the system has room for guards, then none */
#define FIBER_GUARD_NONE 2    /* the library makes no guard; a stack may still have one */

/* The default and the largest size of a guard, in bytes (fiber_attr_set_guard_size). */
#define FIBER_GUARD_SIZE_DEFAULT ((size_t)65536)
#define FIBER_GUARD_SIZE_MAX ((size_t)16777216)

/* Bytes of a fiber's name that are kept, with the terminating zero. */
#define FIBER_NAME_MAX 32

/* ------------------------------------------------------------------------------------------------------------------
 * Life
 *
 * Defaults: Where: a fiber. Switches: no. Since: 0.1. Errors: those of a handle; -EINVAL timeout_ns < 0.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Creates a fiber and schedules its first run of fn(arg). With out NULL the fiber is detached. A joinable fiber keeps
 * its slot until it is joined or detached, or its cord ends.
 *
 * Errors: -EINVAL fn is NULL; -ENOMEM, -EAGAIN, -EPIPE as fiber_new.
 */
FIBERRT_API int fiber_spawn(fiber_t *out, void *(*fn)(void *), void *arg) FIBERRT_LINKNAME(fiber_spawn);

/**
 * Creates a fiber with attributes (NULL: the defaults) and schedules its first run. With out NULL the fiber is
 * detached, whatever the attributes say.
 *
 * Errors: as fiber_new, except that out may be NULL.
 */
FIBERRT_API int fiber_spawn_attr(fiber_t *out, const fiber_attr_t *attr, void *(*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_spawn_attr);

/**
 * Creates a fiber that will run fn(arg), on the calling thread's cord or the cord of the attributes (NULL: the
 * defaults). It does not run, and has no stack, before fiber_start, fiber_wakeup or fiber_transfer.
 *
 * Errors: -EINVAL out or fn is NULL, or the attributes are a task's; -ENOMEM; -EAGAIN there are 16,777,216 fibers;
 * -EPIPE the cord is being shut down; -ESRCH the cord of the attributes has ended.
 */
FIBERRT_API int fiber_new(fiber_t *out, const fiber_attr_t *attr, void *(*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_new);

/**
 * Runs a new fiber at once. The caller continues, at the front of the run queue, when the new fiber first gives its
 * thread away. A fiber of another cord is scheduled there, as by fiber_wakeup.
 *
 * Switches: yes. Errors: -EBUSY the fiber was started or woken before; -ESRCH it has ended; -EAGAIN there is no stack:
 * the fiber stays new.
 */
FIBERRT_API int fiber_start(fiber_t fiber) FIBERRT_LINKNAME(fiber_start);

/**
 * Waits until a fiber has ended, and receives its result. *result (may be NULL) is its function's result, or
 * FIBER_CANCELLED if it was cancelled before its first run. Every fiber already waiting gets it. After the first
 * successful join the handle is stale; after -ECANCELED, -EINTR or -ETIMEDOUT the fiber can be joined again.
 *
 * Switches: yes. Errors: -EINVAL the fiber is detached, or it was hosted and its step returned a wrong value
 * (fiber_step_t); -EDEADLK it is the caller; -EAGAIN it never ran, as there was no stack; -EOWNERDEAD its thread exited
 * before it ended, or it is a main flow and the function of fiber_cord_start has returned.
 */
FIBERRT_API int fiber_join(fiber_t fiber, void **result) FIBERRT_LINKNAME(fiber_join) FIBERRT_CHECK_RESULT;

/** Joins a fiber, waiting at most timeout_ns. With 0, a fiber of another cord that has just ended may count as not
 *  ended. */
FIBERRT_API int fiber_join_timeout(fiber_t fiber, void **result, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_join_timeout) FIBERRT_CHECK_RESULT;

/**
 * Waits until a fiber has ended, and leaves its result to fiber_join. Returns 0 however the fiber ended. Any number of
 * fibers may await it, also while another fiber joins it. A detached fiber's handle is stale afterwards.
 *
 * Switches: yes. Errors: -ESRCH also if it was detached or joined, and ended before the call; -EDEADLK it is the
 * caller; -EOWNERDEAD as from fiber_join, and of every main flow.
 */
FIBERRT_API int fiber_await(fiber_t fiber) FIBERRT_LINKNAME(fiber_await) FIBERRT_CHECK_RESULT;

/** Awaits a fiber, at most timeout_ns; 0 is as in fiber_join_timeout. */
FIBERRT_API int fiber_await_timeout(fiber_t fiber, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_await_timeout) FIBERRT_CHECK_RESULT;

/**
 * Detaches a fiber: no fiber can join it any more, and its handle goes stale at its end, or now if it has ended. Fibers
 * already in fiber_join still receive its result.
 *
 * Where: anywhere. Errors: -EINVAL the fiber is detached already, or is a main flow.
 */
FIBERRT_API int fiber_detach(fiber_t fiber) FIBERRT_LINKNAME(fiber_detach);

/**
 * Ends the calling fiber as if its function had returned result. C++ objects on its stack are NOT destroyed: in C++
 * return from the function instead. The call does not return on success. docs/per-fiber.md lists the steps.
 *
 * Switches: yes, for good; a cancelled fiber may call it too. Errors: -EPERM from a main flow, inside a no-switch
 * section, or from a key's destructor.
 */
FIBERRT_API int fiber_exit(void *result) FIBERRT_LINKNAME(fiber_exit);

/** Returns the handle of the calling fiber, in *out. Errors: -EINVAL out is NULL. */
FIBERRT_API int fiber_self(fiber_t *out) FIBERRT_LINKNAME(fiber_self);

/* The states of a fiber. */
#define FIBER_NEW 0      /* created, neither started nor woken */
#define FIBER_RUNNABLE 1 /* in the run queue */
#define FIBER_RUNNING 2  /* the one that runs on its thread */
#define FIBER_WAITING 3  /* parked: in a yield, a sleep, a join, an operation, … */
#define FIBER_DEAD 4     /* ended, and not joined yet */

/** Returns the state of a fiber, one of FIBER_NEW … FIBER_DEAD. Where: anywhere. */
FIBERRT_API int fiber_state(fiber_t fiber) FIBERRT_LINKNAME(fiber_state);

/**
 * Copies a fiber's name into buffer, cut to size bytes with the terminating zero. Returns the length of the whole name.
 *
 * Where: anywhere. Errors: -EINVAL buffer is NULL or size is 0.
 */
FIBERRT_API int fiber_name(fiber_t fiber, char *buffer, size_t size) FIBERRT_LINKNAME(fiber_name);

/**
 * Names a fiber. The library keeps the first FIBER_NAME_MAX - 1 bytes.
 *
 * Where: a fiber of its cord. Errors: -EINVAL name is NULL; -EPERM it belongs to another cord.
 */
FIBERRT_API int fiber_set_name(fiber_t fiber, const char *name) FIBERRT_LINKNAME(fiber_set_name);

/* ------------------------------------------------------------------------------------------------------------------
 * Attributes
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: -EINVAL attr, out or name is NULL.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Makes an attribute object with the defaults: FIBER_STACK_DEFAULT, FIBER_GUARD_REQUIRE, FIBER_GUARD_SIZE_DEFAULT, no
 * name, joinable, the caller's cord. The caller frees *out with fiber_attr_destroy. It serves any number of fibers.
 *
 * Errors: -ENOMEM.
 */
FIBERRT_API int fiber_attr_create(fiber_attr_t **out) FIBERRT_LINKNAME(fiber_attr_create);

/** Frees an attribute object; NULL does nothing. Errors: none. */
FIBERRT_API int fiber_attr_destroy(fiber_attr_t *attr) FIBERRT_LINKNAME(fiber_attr_destroy);

/**
 * Sets the stack size of fibers made with attr, in bytes, rounded up to a power of two and to whole pages. The guard
 * comes in addition; up to 1 KiB at the high end is unused. The size is address space; the fiber takes memory as it
 * touches it (docs/guide/tuning.md).
 *
 * Errors: -EINVAL bytes is below FIBER_STACK_MIN, above FIBER_STACK_MAX, or gives a stack smaller than twice the bytes of
 * fiber_attr_set_stack_reserve.
 */
FIBERRT_API int fiber_attr_set_stack_size(fiber_attr_t *attr, size_t bytes)
    FIBERRT_LINKNAME(fiber_attr_set_stack_size);

/**
 * Reserves bytes of the stack, rounded up to a multiple of 16, for the fiber's function to use as it likes. They lie
 * directly above the fiber's first frame, so a few of them share the page of the first frames: a waiting fiber then
 * needs less memory than with an array in a frame. They begin at fiber_info_t.stack_high - bytes, and are not cleared.
 * 0, the default: none. Hosted fibers and tasks of a pool have no reserve.
 *
 * Errors: -EINVAL bytes is more than half of the stack size.
 */
FIBERRT_API int fiber_attr_set_stack_reserve(fiber_attr_t *attr, size_t bytes)
    FIBERRT_LINKNAME(fiber_attr_set_stack_reserve);

/**
 * Sets whether the stack has a guard (FIBER_GUARD_*): a region below it that cannot be touched, so that an overflow
 * raises SIGSEGV instead of overwriting memory. Before Linux 6.13 the default vm.max_map_count allows some 30,000
 * guards (docs/guide/tuning.md).
 *
 * Errors: -EINVAL guard is none of the three.
 */
FIBERRT_API int fiber_attr_set_guard(fiber_attr_t *attr, int guard) FIBERRT_LINKNAME(fiber_attr_set_guard);

/**
 * Sets the size of the guard in bytes, rounded up to 64 KiB, 1 MiB or 16 MiB. If the guard would have the size of the
 * stack, the library doubles the guard. Whether there is a guard stays as fiber_attr_set_guard says. A function whose
 * frame is larger than the guard may write past it into another fiber's stack, unless it was compiled with
 * -fstack-clash-protection.
 *
 * Errors: -EINVAL bytes is 0 or above FIBER_GUARD_SIZE_MAX.
 */
FIBERRT_API int fiber_attr_set_guard_size(fiber_attr_t *attr, size_t bytes)
    FIBERRT_LINKNAME(fiber_attr_set_guard_size);

/** Sets the name of fibers made with attr, as fiber_set_name does. */
FIBERRT_API int fiber_attr_set_name(fiber_attr_t *attr, const char *name) FIBERRT_LINKNAME(fiber_attr_set_name);

/** Sets whether the fiber is detached (detached is not 0). */
FIBERRT_API int fiber_attr_set_detached(fiber_attr_t *attr, int detached) FIBERRT_LINKNAME(fiber_attr_set_detached);

/**
 * Sets whether the fiber is a daemon (daemon is not 0): a cord that was started ends without waiting for the fiber,
 * which never runs again. The result of a call that has completed but not returned is lost: bytes read, or a joined
 * fiber's result.
 */
FIBERRT_API int fiber_attr_set_daemon(fiber_attr_t *attr, int daemon) FIBERRT_LINKNAME(fiber_attr_set_daemon);

/** Sets the cord of fibers made with attr. */
FIBERRT_API int fiber_attr_set_cord(fiber_attr_t *attr, fiber_cord_t cord) FIBERRT_LINKNAME(fiber_attr_set_cord);

/**
 * Sets a function that frees the argument of a fiber that never runs, because it was cancelled, had no stack, or its
 * thread exited: free_arg(arg) is called once instead of fn(arg). NULL, the default: no function. If the call that
 * makes the fiber fails, arg is still the caller's.
 *
 * It runs on the thread that ends the fiber, on any stack, in a no-switch section (docs/fork.md says what a fork()
 * adds), and, except at a thread's exit, before any joiner wakes: a joiner may free the object that arg points to.
 */
FIBERRT_API int fiber_attr_set_free_arg(fiber_attr_t *attr, void (*free_arg)(void *))
    FIBERRT_LINKNAME(fiber_attr_set_free_arg);

/**
 * Turns an attribute object into that of a pool's task, for fiber_scope_spawn_attr only: any of the pool's threads may
 * run that child. Of the other attributes only detached and free_arg count.
 */
FIBERRT_API int fiber_attr_set_pool(fiber_attr_t *attr, fiber_pool_t pool) FIBERRT_LINKNAME(fiber_attr_set_pool);

/* ------------------------------------------------------------------------------------------------------------------
 * Switching
 *
 * Defaults: Where: a fiber. Switches: yes. Since: 0.1. Errors: those of a handle.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Parks the calling fiber until a wakeup, or a fiber_transfer to it (other systems' yield is fiber_reschedule). With a
 * pending wakeup (fiber_wakeup) it lets the other fibers run once and returns 0. A call that fails leaves the pending
 * wakeup.
 */
FIBERRT_API int fiber_yield(void) FIBERRT_LINKNAME(fiber_yield);

/**
 * Parks the calling fiber for at most timeout_ns. 0 lets the other fibers run once, and is -ETIMEDOUT unless the caller
 * has been woken by then.
 *
 * Errors: -ETIMEDOUT not woken in time; -EINVAL timeout_ns < 0.
 */
FIBERRT_API int fiber_yield_timeout(int64_t timeout_ns) FIBERRT_LINKNAME(fiber_yield_timeout);

/**
 * Parks the calling fiber and receives in *value the value of fiber_wakeup_value or fiber_transfer, or NULL if the
 * wakeup carried none. (fiber_yield drops the value.)
 *
 * Errors: -EINVAL value is NULL.
 */
FIBERRT_API int fiber_yield_value(void **value) FIBERRT_LINKNAME(fiber_yield_value);

/**
 * Wakes a fiber that is parked in a yield: it goes to the end of the run queue. A new fiber gets its first run. If a
 * wakeup has already put the fiber into the run queue, nothing more happens. A fiber that runs, or waits for something
 * else, keeps one wakeup for its next yield: the pending wakeup. A wakeup ends no other wait (a sleep, an operation, a
 * join, a transfer), and does nothing to a fiber that has ended.
 *
 * Where: anywhere. Switches: no.
 */
FIBERRT_API int fiber_wakeup(fiber_t fiber) FIBERRT_LINKNAME(fiber_wakeup);

/**
 * Wakes a fiber and passes a value to its fiber_yield_value.
 *
 * Switches: no. Errors: -EBUSY a wakeup is pending or has queued the fiber, or the fiber is new; -ESRCH it has ended;
 * -EPERM it belongs to another cord.
 */
FIBERRT_API int fiber_wakeup_value(fiber_t fiber, void *value) FIBERRT_LINKNAME(fiber_wakeup_value);

/** Lets every fiber that is runnable now run once, then continues (other systems call this yield). */
FIBERRT_API int fiber_reschedule(void) FIBERRT_LINKNAME(fiber_reschedule);

/** Reschedules if the thread has not polled for 100 microseconds; for long computations. Reads the clock; otherwise
 *  does nothing and returns 0. */
FIBERRT_API int fiber_reschedule_if_due(void) FIBERRT_LINKNAME(fiber_reschedule_if_due);

/**
 * Switches directly to the fiber `to`, with a value, and parks the caller until any fiber transfers to it. `to` is new
 * or parked in a yield or a transfer; the run queue stays as it is. Returns 0, and the value of that transfer in *out
 * (may be NULL); or 1, and the result of `to` there, if `to` has ended and the caller was the last to transfer to it. A
 * new fiber reads the value by fiber_transferrer.
 *
 * Errors: -EBUSY `to` is not parked like that, or is the caller; -EINVAL it is hosted; -ESRCH it has ended; -EPERM it
 * belongs to another cord; -EAGAIN it is new and there is no stack.
 */
FIBERRT_API int fiber_transfer(fiber_t to, void *in, void **out) FIBERRT_LINKNAME(fiber_transfer);

/**
 * Returns the fiber that last transferred to the caller, in *from, and its value (after a transfer that returned 1: the
 * result) in *value. Both may be NULL.
 *
 * Switches: no. Errors: -ESRCH no fiber has transferred to it.
 */
FIBERRT_API int fiber_transferrer(fiber_t *from, void **value) FIBERRT_LINKNAME(fiber_transferrer);

/**
 * Waits for at least ns nanoseconds. 0 is one pass of the run queue and one poll.
 *
 * Errors: -EINVAL ns < 0.
 */
FIBERRT_API int fiber_sleep(int64_t ns) FIBERRT_LINKNAME(fiber_sleep);

/**
 * Waits for the next tick of a fixed interval of period_ns nanoseconds. Work between two calls does not shift the
 * ticks.
 *
 *     int64_t tick = 0;
 *     while (fiber_every(&tick, FIBER_SEC(1)) >= 0) measure();
 *
 * *tick_ns is the time of the last tick, in fiber_now's time; 0 stands for the time of the call. The call waits for the
 * tick one period later, sets *tick_ns to its time and returns 0. If that tick has passed, it waits for the first one
 * that has not, and returns how many it left out.
 *   - *tick_ns must live until the call returns, and serves one fiber at a time. Between calls the caller may set it,
 *     and change the period.
 *   - A wait that ends early leaves the tick for the next call (a 0 has become the time of the call).
 *   - A tick noticed late during the call is not left out; fiber_now() - *tick_ns is how late.
 *   - A tick after INT64_MAX never comes. The other fibers run once even if the tick is due.
 *
 * Errors: -EINVAL tick_ns is NULL, *tick_ns < 0 or period_ns <= 0.
 */
FIBERRT_API int64_t fiber_every(int64_t *tick_ns, int64_t period_ns) FIBERRT_LINKNAME(fiber_every);

/**
 * Begins a section in which no call switches: each call that says "Switches: yes" returns -EPERM and does nothing,
 * until the matching fiber_noswitch_leave. Sections nest.
 *
 * Switches: no. Errors: -EAGAIN 65,535 sections are open.
 */
FIBERRT_API int fiber_noswitch_enter(void) FIBERRT_LINKNAME(fiber_noswitch_enter);

/**
 * Ends the innermost no-switch section. A function that the library calls in one (a hook, apply, free_arg, a destructor
 * at a thread's exit) can end only its own sections.
 *
 * Switches: no. Errors: -EINVAL no section is open.
 */
FIBERRT_API int fiber_noswitch_leave(void) FIBERRT_LINKNAME(fiber_noswitch_leave);

/**
 * Tells whether the caller is a fiber that may wait now: returns 1 if the thread has a cord and the caller is in no
 * no-switch section, otherwise 0. The main flow of a cord is a fiber, too.
 *
 * Where: anywhere. Switches: no. Errors: none.
 */
FIBERRT_API int fiber_here(void) FIBERRT_LINKNAME(fiber_here);

/* ------------------------------------------------------------------------------------------------------------------
 * Cancelling
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: those of a handle.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Cancels a fiber, for good: its present wait ends with -ECANCELED, and so does every later call that switches. A fiber
 * that never started never runs. Its scopes' children are cancelled with the same reason, except those of shielded
 * scopes and of scopes inside these. The first reason stays. A fiber may cancel itself. Cancelling an ended fiber does
 * nothing.
 *
 * A cancelled fiber can still make calls inside a shielded scope (FIBER_SCOPE_SHIELD, FIBER_SCOPE_SHIELD_CANCEL), and
 * everywhere fiber_close, fiber_scope_close, fiber_mutex_lock, fiber_process_wait and fiber_exit. fiber_cond_wait still
 * locks its mutex again, and fiber_offload waits for a function that has begun.
 */
FIBERRT_API int fiber_cancel(fiber_t fiber, void *reason) FIBERRT_LINKNAME(fiber_cancel);

/**
 * Tells whether the calling fiber is cancelled: returns 1, with the reason in *reason (which may be NULL), or 0.
 * Shields do not hide it.
 *
 * Where: a fiber.
 */
FIBERRT_API int fiber_cancelled(void **reason) FIBERRT_LINKNAME(fiber_cancelled);

/**
 * Interrupts a fiber: ends its present wait, or its next call that switches, once, with -EINTR. fiber_interrupted
 * returns value.
 *
 * Errors: -EBUSY an interrupt is pending; or, for a fiber of the caller's cord, one has ended a wait that has not
 * returned yet.
 */
FIBERRT_API int fiber_interrupt(fiber_t fiber, void *value) FIBERRT_LINKNAME(fiber_interrupt);

/**
 * Returns the value of the last interrupt in *value, and 1 if an interrupt has ended a call of the calling fiber with
 * -EINTR; otherwise 0.
 *
 * Where: a fiber. Errors: -EINVAL value is NULL.
 */
FIBERRT_API int fiber_interrupted(void **value) FIBERRT_LINKNAME(fiber_interrupted);

/* ------------------------------------------------------------------------------------------------------------------
 * Scopes
 *
 * Defaults: Where: the fiber that opened the scope. Switches: no. Since: 0.1.
 * --------------------------------------------------------------------------------------------------------------- */

/* Flags of fiber_scope_open. Without COLLECT or FIRST, the first child that fails cancels the others. */
#define FIBER_SCOPE_SHIELD 1u  /* holds back cancels, interrupts and deadlines from outside until the scope is closed */
#define FIBER_SCOPE_COLLECT 2u /* whatever a child returns, the others go on */
#define FIBER_SCOPE_FIRST 4u   /* the first child that succeeds cancels the others */
#define FIBER_SCOPE_SHIELD_CANCEL 8u /* holds back cancels from outside, as pthread_setcancelstate(3) does */

/**
 * Opens a scope, which limits the time of the calling fiber's calls and owns child fibers (fiber_scope_spawn). After
 * timeout_ns nanoseconds (FIBER_FOREVER: never) the fiber's present wait ends with -ETIMEDOUT, and so does every later
 * call that switches, until the scope is closed; except those that a cancel does not end either (fiber_cancel). Scopes
 * nest; the earliest deadline counts. The fiber that opens a scope closes it; a fiber that ends cancels the children in
 * its open scopes, and closes these.
 *
 * A deadline is noticed when a wait begins or continues, otherwise a bounded number of switches later; a wait with a
 * deadline of 0 or in the past tries once. A shield holds back fiber_cancel, interrupts, and cancels and deadlines of
 * outer scopes, not its scope's own; FIBER_SCOPE_SHIELD_CANCEL lets interrupts and deadlines through.
 *
 * Where: a fiber. Errors: -EINVAL out is NULL, timeout_ns < 0, an unknown flag, or both COLLECT and FIRST; -ENOMEM;
 * -EAGAIN 16,777,216 scopes are open.
 */
FIBERRT_API int fiber_scope_open(fiber_scope_t *out, int64_t timeout_ns, unsigned flags)
    FIBERRT_LINKNAME(fiber_scope_open);

/**
 * Closes a scope, and the scopes opened inside it, after waiting until all children have ended. Nothing ends this wait
 * early; cancels and deadlines reach the children. Returns -ECANCELED if fiber_scope_cancel cancelled this scope;
 * otherwise -ETIMEDOUT if the library noticed that the scope's own deadline passed, even if all calls succeeded;
 * otherwise 0, whatever the children returned, and whatever happened to outer scopes. *failure (may be NULL) is the
 * result of the first child that failed, or 0; the -ECANCELED of a child that the scope cancelled is no failure.
 *
 * Switches: yes, if there are children; a cancelled fiber may call it too. Errors: -EPERM another fiber opened it, or
 * children are left inside a no-switch section; -ESRCH it is closed; -EDEADLK the children can never end (on a main
 * flow): the scope stays open.
 */
FIBERRT_API int fiber_scope_close(fiber_scope_t scope, int64_t *failure) FIBERRT_LINKNAME(fiber_scope_close);

/* The state of a FIBER_WITH_TIMEOUT block; the library's own. */
typedef struct {
    fiber_scope_t scope;
    int *verdict;
    int once;
} fiber_timeout_block_t;

/** Opens the scope of a FIBER_WITH_TIMEOUT block; programs use the macro. Where: a fiber. Errors: none but in *verdict.
 */
FIBERRT_API fiber_timeout_block_t fiber_timeout_block_open(int64_t timeout_ns, int *verdict)
    FIBERRT_LINKNAME(fiber_timeout_block_open);
/** Closes the scope of a FIBER_WITH_TIMEOUT block; programs use the macro.
 *  Switches: yes, if a scope with children was left open inside. Errors: none but in *verdict. */
FIBERRT_API void fiber_timeout_block_close(fiber_timeout_block_t *block) FIBERRT_LINKNAME(fiber_timeout_block_close);

/**
 * Runs a block in a scope with a deadline: FIBER_WITH_TIMEOUT(ns, &verdict) { ... }. Whatever leaves the block closes
 * the scope, also return, goto and break (which leaves only the block); longjmp and fiber_exit leave it open. The
 * verdict (may be NULL) is the result of fiber_scope_close; or the error of fiber_scope_open, and then the block does
 * not run.
 *
 * Where: a fiber. Switches: yes, at its end, as fiber_scope_close. Errors: none but in *verdict.
 */
#define FIBER_WITH_TIMEOUT(timeout_ns, verdict) \
    FIBERRT_TIMEOUT_BLOCK_(FIBERRT_PASTE_(fiberrt_block_, __LINE__), timeout_ns, verdict)
#define FIBERRT_TIMEOUT_BLOCK_(name, timeout_ns, verdict)                                 \
    for (fiber_timeout_block_t name __attribute__((cleanup(fiber_timeout_block_close))) = \
             fiber_timeout_block_open(timeout_ns, verdict);                               \
         name.once; name.once = 0)
#define FIBERRT_PASTE_(a, b) FIBERRT_PASTE2_(a, b)
#define FIBERRT_PASTE2_(a, b) a##b

/**
 * Cancels a scope: until it is closed, its fiber's calls inside it are refused or end with -ECANCELED, and its children
 * are cancelled with this reason. Shields inside it hold the cancel back. The fiber itself is not cancelled:
 * fiber_cancelled returns 0. The first reason stays.
 *
 * Where: anywhere. Errors: -ESRCH it is closed.
 */
FIBERRT_API int fiber_scope_cancel(fiber_scope_t scope, void *reason) FIBERRT_LINKNAME(fiber_scope_cancel);

/**
 * Moves the deadline of an open scope to timeout_ns nanoseconds from now. A deadline that had fired and lies ahead now
 * counts as not fired; children that it cancelled stay cancelled.
 *
 * Errors: -EPERM another fiber opened it; -EINVAL timeout_ns < 0.
 */
FIBERRT_API int fiber_scope_set_timeout(fiber_scope_t scope, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_scope_set_timeout);

/**
 * Creates a child of an open scope, on the calling thread's cord, and schedules its first run of fn(arg). A result
 * below 0 is a failure. A child that never ran has failed with -ECANCELED if it was cancelled before, -EAGAIN if there
 * was no stack, -EOWNERDEAD if its thread exited.
 *
 * All children are cancelled, with the first reason,
 *   - when the scope is cancelled (fiber_scope_cancel) or its deadline fires;
 *   - when either happens to an outer scope, or the scope's fiber is cancelled, unless this scope or one between is
 *     shielded;
 *   - when the first child has failed or succeeded, by the flags of the scope;
 *   - when the scope's fiber ends, or its thread, which does not wait for children on other cords.
 * From then on a new child never runs, and ends with -ECANCELED. A child's failure makes no call of the scope's own
 * fiber fail.
 *
 * *out (may be NULL) is the child's handle, stale once the child has ended. It may be joined, cancelled and detached;
 * the scope waits for a child detached later too, and reports it.
 *
 * Where: a fiber of the scope's cord; once that has made a child, any fiber, so that children may spawn others. Errors:
 * -EINVAL fn is NULL; -ESRCH the scope is closed; -EPERM it is of another cord and has had no child yet; -ENOMEM;
 * -EAGAIN there are 16,777,216 fibers or children; -EPIPE the cord is being shut down, or the scope's cord has ended
 * and a key's destructor asks for its first child.
 */
FIBERRT_API int fiber_scope_spawn(fiber_scope_t scope, fiber_t *out, int64_t (*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_scope_spawn);

/**
 * Creates a child of a scope with attributes (NULL: the defaults). A detached child is not reported by
 * fiber_scope_next, and leaves nothing behind: for scopes that live long. Its failure or success still counts.
 *
 * With the attribute of a pool (fiber_attr_set_pool) the child is a task, which has no handle before it begins: out
 * must be NULL. If the scope is stopped before, the task never runs and ends with -ECANCELED. fiber_scope_next reports
 * it by the handle that it had as a fiber; zero if it never ran.
 *
 * Where: as fiber_scope_spawn. Errors: as fiber_scope_spawn; -ESRCH the cord or the pool of the attributes has ended;
 * those of fiber_pool_submit; -EINVAL for a task: out is not NULL, or a cord is set, too.
 */
FIBERRT_API int fiber_scope_spawn_attr(fiber_scope_t scope, fiber_t *out, const fiber_attr_t *attr,
                                       int64_t (*fn)(void *), void *arg) FIBERRT_LINKNAME(fiber_scope_spawn_attr);

/**
 * Waits for the next child of a scope to end. Returns 1, the child's handle in *child (stale, but it identifies the
 * child) and its result in *result; both may be NULL. Each end is reported once, in the order in which the scope's
 * thread learned of them. Returns 0 when all have been reported; children made detached may still run.
 *
 * Switches: yes. Errors: -EPERM another fiber opened it.
 */
FIBERRT_API int fiber_scope_next(fiber_scope_t scope, fiber_t *child, int64_t *result)
    FIBERRT_LINKNAME(fiber_scope_next);

/* ------------------------------------------------------------------------------------------------------------------
 * Locks and other primitives
 *
 * Primitives lie in the caller's memory. All zero bytes are a fresh one, except of a barrier; initialisers
 * (FIBER_MUTEX_INITIALIZER and the others) or memset make one. The memory must live, and stay in its place, while a
 * fiber or thread holds the primitive or is inside a call about it.
 *
 * Fibers of any cord and threads without a cord may share a primitive. A thread without a cord blocks in a wait, and
 * gets no cord. (In a simulation only the first thread may wait: -ENOTSUP.) A cancel, an interrupt or a deadline ends
 * every wait except that of fiber_mutex_lock. If the primitive was granted by then, the call succeeds, and the next
 * call reports the cancel. If a fiber's thread ends before the fiber runs again, its grant goes to the next waiter.
 * Waiters are served in order of arrival.
 *
 * The functions named …_destroy find mistakes: they free nothing, and need not be called. Their 0 does not mean that
 * all calls about the primitive have returned.
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: -EINVAL a pointer is NULL, a timeout or a number of
 * permits is negative, or n of fiber_sem_wait, _trywait or _post is 0.
 * --------------------------------------------------------------------------------------------------------------- */

/* Their members are the library's. */
typedef struct { uint64_t opaque[12]; } fiber_mutex_t;  /* a mutex */
typedef struct { uint64_t opaque[8]; } fiber_cond_t;    /* a condition variable */
typedef struct { uint64_t opaque[8]; } fiber_sem_t;     /* a semaphore */
typedef struct { uint64_t opaque[8]; } fiber_event_t;   /* an event */
typedef struct { uint64_t opaque[8]; } fiber_wg_t;      /* a wait group */
typedef struct { uint64_t opaque[12]; } fiber_rwlock_t; /* a read-write lock */
typedef struct { uint64_t opaque[16]; } fiber_once_t;   /* a call that is made once */
typedef struct { uint64_t opaque[8]; } fiber_barrier_t; /* a barrier */

/* Constant initialisers, in C99 and C++, without a constructor. permits and count are constants from 0 to INT64_MAX, of
 * a barrier from 1; flags is 0 or a combination of FIBER_EVENT_*. */
#define FIBER_MUTEX_INITIALIZER {{0}}
#define FIBER_COND_INITIALIZER {{0}}
#define FIBER_RWLOCK_INITIALIZER {{0}}
#define FIBER_ONCE_INITIALIZER {{0}}
#define FIBER_SEM_INITIALIZER(permits) {{0, 0, (permits)}}
#define FIBER_EVENT_INITIALIZER(flags) {{0, ((flags) & UINT64_C(1)) << 32 | ((flags) & UINT64_C(2)) << 39}}
#define FIBER_WG_INITIALIZER(count) {{0, 0, (count)}}
#define FIBER_BARRIER_INITIALIZER(count) {{0, 0, (count)}}

/**
 * Locks a mutex; waits while another caller holds it. Cancels, interrupts and deadlines do not end the wait. Only the
 * holder, a fiber or a thread, can unlock. A newcomer may get the mutex before a waiter of less than a millisecond.
 *
 * If a holder's function returns, or its thread ends, without unlocking, the next lock returns -EOWNERDEAD, and so do
 * the locks of all callers that waited then. They hold the mutex, and should check the data it protects. No call like
 * pthread_mutex_consistent is needed. (docs/per-fiber.md has an exception.)
 *
 * Switches: yes; a cancelled fiber may call it too. Errors: -EOWNERDEAD a holder has died; the caller holds the lock.
 * -EDEADLK the caller holds it already. -EPERM inside a no-switch section.
 */
FIBERRT_API int fiber_mutex_lock(fiber_mutex_t *mutex) FIBERRT_LINKNAME(fiber_mutex_lock) FIBERRT_CHECK_RESULT;
/** Locks a mutex, waiting at most timeout_ns. Cancels, interrupts and deadlines end the wait. Switches: yes. */
FIBERRT_API int fiber_mutex_lock_timeout(fiber_mutex_t *mutex, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_mutex_lock_timeout) FIBERRT_CHECK_RESULT;
/** Locks a mutex if no caller holds it. Errors: -EBUSY a caller holds it, maybe this one;
 *  -EOWNERDEAD as fiber_mutex_lock. */
FIBERRT_API int fiber_mutex_trylock(fiber_mutex_t *mutex) FIBERRT_LINKNAME(fiber_mutex_trylock) FIBERRT_CHECK_RESULT;
/** Unlocks a mutex. The next holder may free its memory at once. Errors: -EPERM the caller does not hold it. */
FIBERRT_API int fiber_mutex_unlock(fiber_mutex_t *mutex) FIBERRT_LINKNAME(fiber_mutex_unlock);
/** Destroys a mutex. Errors: -EBUSY a caller holds it or waits for it. */
FIBERRT_API int fiber_mutex_destroy(fiber_mutex_t *mutex) FIBERRT_LINKNAME(fiber_mutex_destroy);

/**
 * Unlocks a mutex, waits for fiber_cond_signal or fiber_cond_broadcast, and locks the mutex again. A caller that held
 * the mutex holds it again whatever the result, also -ECANCELED, -EINTR and -ETIMEDOUT, except -EDEADLK. The result is
 * 0 only after a signal. If the caller is already cancelled, interrupted or out of time, the call does not wait for a
 * signal. It may still unlock the mutex, let other fibers run, and lock it again: check the protected data.
 *
 * Switches: yes. Errors: -EPERM the caller does not hold the mutex, or it is inside a no-switch section: nothing has
 * changed. -EOWNERDEAD a holder has died while the mutex was unlocked, whatever ended the wait. -EDEADLK nothing could
 * ever end the wait, or let the caller have the mutex (then fiber_mutex_unlock returns -EPERM).
 */
FIBERRT_API int fiber_cond_wait(fiber_cond_t *cond, fiber_mutex_t *mutex)
    FIBERRT_LINKNAME(fiber_cond_wait) FIBERRT_CHECK_RESULT;
/** Waits for a condition variable, at most timeout_ns for the signal; then for the mutex, without limit. */
FIBERRT_API int fiber_cond_wait_timeout(fiber_cond_t *cond, fiber_mutex_t *mutex, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_cond_wait_timeout) FIBERRT_CHECK_RESULT;
/** Wakes the first waiter of a condition variable, if there is one. The mutex need not be held. */
FIBERRT_API int fiber_cond_signal(fiber_cond_t *cond) FIBERRT_LINKNAME(fiber_cond_signal);
/** Wakes all waiters of a condition variable. */
FIBERRT_API int fiber_cond_broadcast(fiber_cond_t *cond) FIBERRT_LINKNAME(fiber_cond_broadcast);
/** Destroys a condition variable. Errors: -EBUSY a caller waits for it. */
FIBERRT_API int fiber_cond_destroy(fiber_cond_t *cond) FIBERRT_LINKNAME(fiber_cond_destroy);

/** Makes a semaphore, which no caller uses yet, with a number of permits; zero bytes have none. */
FIBERRT_API int fiber_sem_init(fiber_sem_t *sem, int64_t permits) FIBERRT_LINKNAME(fiber_sem_init);
/** Takes n permits of a semaphore at once; waits until there are as many. Smaller requests do not overtake a large one.
 *  Switches: yes. */
FIBERRT_API int fiber_sem_wait(fiber_sem_t *sem, int64_t n) FIBERRT_LINKNAME(fiber_sem_wait) FIBERRT_CHECK_RESULT;
/** Takes n permits of a semaphore, waiting at most timeout_ns. */
FIBERRT_API int fiber_sem_wait_timeout(fiber_sem_t *sem, int64_t n, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_sem_wait_timeout) FIBERRT_CHECK_RESULT;
/** Takes n permits of a semaphore if that needs no wait. Errors: -EAGAIN there are fewer, or a caller waits. */
FIBERRT_API int fiber_sem_trywait(fiber_sem_t *sem, int64_t n) FIBERRT_LINKNAME(fiber_sem_trywait) FIBERRT_CHECK_RESULT;
/** Gives a semaphore n permits. Errors: -EOVERFLOW there would be more than INT64_MAX; nothing was given. */
FIBERRT_API int fiber_sem_post(fiber_sem_t *sem, int64_t n) FIBERRT_LINKNAME(fiber_sem_post);
/** Returns the number of permits of a semaphore. */
FIBERRT_API int64_t fiber_sem_value(fiber_sem_t *sem) FIBERRT_LINKNAME(fiber_sem_value);
/** Destroys a semaphore. Errors: -EBUSY a caller waits for it. */
FIBERRT_API int fiber_sem_destroy(fiber_sem_t *sem) FIBERRT_LINKNAME(fiber_sem_destroy);

/* Flags of fiber_event_init. */
#define FIBER_EVENT_MANUAL 1u /* it stays set until fiber_event_reset, for all waiters */
#define FIBER_EVENT_SET 2u    /* it is set from the beginning */

/** Makes an event that no caller uses yet. flags: FIBER_EVENT_*; zero bytes are an event with flags 0. Errors: -EINVAL
 *  other flags. */
FIBERRT_API int fiber_event_init(fiber_event_t *event, unsigned flags) FIBERRT_LINKNAME(fiber_event_init);
/** Waits until an event is set, and resets it if it is not manual. Switches: yes. */
FIBERRT_API int fiber_event_wait(fiber_event_t *event) FIBERRT_LINKNAME(fiber_event_wait) FIBERRT_CHECK_RESULT;
/** Waits until an event is set, at most timeout_ns. */
FIBERRT_API int fiber_event_wait_timeout(fiber_event_t *event, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_event_wait_timeout) FIBERRT_CHECK_RESULT;
/** Sets an event. A manual event ends all waits; any other ends that of the first waiter or the next caller. Setting a
 *  set event does nothing. */
FIBERRT_API int fiber_event_set(fiber_event_t *event) FIBERRT_LINKNAME(fiber_event_set);
/** Resets an event. Returns 1 if it was set, 0 if not. */
FIBERRT_API int fiber_event_reset(fiber_event_t *event) FIBERRT_LINKNAME(fiber_event_reset);
/** Tells whether an event is set: 1 or 0. */
FIBERRT_API int fiber_event_is_set(fiber_event_t *event) FIBERRT_LINKNAME(fiber_event_is_set);
/** Destroys an event. Errors: -EBUSY a caller waits for it. */
FIBERRT_API int fiber_event_destroy(fiber_event_t *event) FIBERRT_LINKNAME(fiber_event_destroy);

/** Adds n, which may be negative, to the count of a wait group; waiters continue when it becomes 0.
 *  Errors: -EINVAL the count would be below 0; -EOVERFLOW the count would be above INT64_MAX; nothing was added. */
FIBERRT_API int fiber_wg_add(fiber_wg_t *group, int64_t n) FIBERRT_LINKNAME(fiber_wg_add);
/** Takes one from the count of a wait group, with the errors of fiber_wg_add. Returns 1 if the count is 0 then,
 *  otherwise 0. */
FIBERRT_API int fiber_wg_done(fiber_wg_t *group) FIBERRT_LINKNAME(fiber_wg_done);
/** Waits until the count of a wait group is 0. Switches: yes. */
FIBERRT_API int fiber_wg_wait(fiber_wg_t *group) FIBERRT_LINKNAME(fiber_wg_wait) FIBERRT_CHECK_RESULT;
/** Waits until the count of a wait group is 0, at most timeout_ns. */
FIBERRT_API int fiber_wg_wait_timeout(fiber_wg_t *group, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_wg_wait_timeout) FIBERRT_CHECK_RESULT;
/** Destroys a wait group. Errors: -EBUSY a caller waits for it. */
FIBERRT_API int fiber_wg_destroy(fiber_wg_t *group) FIBERRT_LINKNAME(fiber_wg_destroy);

/**
 * Locks a read-write lock for reading, together with other readers; waits while a caller holds it for writing or waits
 * to. So a reader must not lock for reading again: it may wait for ever. The death of a holder is not reported: the
 * lock stays held for ever.
 *
 * Switches: yes. Errors: -EDEADLK the caller holds it for writing.
 */
FIBERRT_API int fiber_rwlock_rdlock(fiber_rwlock_t *rwlock) FIBERRT_LINKNAME(fiber_rwlock_rdlock) FIBERRT_CHECK_RESULT;
/** Locks a read-write lock for writing; waits while any caller holds it. Switches: yes. Errors: -EDEADLK the caller
 *  holds it for writing. */
FIBERRT_API int fiber_rwlock_wrlock(fiber_rwlock_t *rwlock) FIBERRT_LINKNAME(fiber_rwlock_wrlock) FIBERRT_CHECK_RESULT;
/** Locks a read-write lock for reading, waiting at most timeout_ns. */
FIBERRT_API int fiber_rwlock_rdlock_timeout(fiber_rwlock_t *rwlock, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_rwlock_rdlock_timeout) FIBERRT_CHECK_RESULT;
/** Locks a read-write lock for writing, waiting at most timeout_ns. */
FIBERRT_API int fiber_rwlock_wrlock_timeout(fiber_rwlock_t *rwlock, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_rwlock_wrlock_timeout) FIBERRT_CHECK_RESULT;
/** Locks a read-write lock for reading if that needs no wait. Errors: -EBUSY it would have to wait. */
FIBERRT_API int fiber_rwlock_tryrdlock(fiber_rwlock_t *rwlock)
    FIBERRT_LINKNAME(fiber_rwlock_tryrdlock) FIBERRT_CHECK_RESULT;
/** Locks a read-write lock for writing if that needs no wait. Errors: -EBUSY it would have to wait. */
FIBERRT_API int fiber_rwlock_trywrlock(fiber_rwlock_t *rwlock)
    FIBERRT_LINKNAME(fiber_rwlock_trywrlock) FIBERRT_CHECK_RESULT;
/** Unlocks a read-write lock that the caller holds. It does not notice a caller without the lock while others hold it
 *  for reading. Errors: -EPERM another caller holds it for writing, or no caller holds it. */
FIBERRT_API int fiber_rwlock_unlock(fiber_rwlock_t *rwlock) FIBERRT_LINKNAME(fiber_rwlock_unlock);
/** Destroys a read-write lock. Errors: -EBUSY a caller holds it or waits for it. */
FIBERRT_API int fiber_rwlock_destroy(fiber_rwlock_t *rwlock) FIBERRT_LINKNAME(fiber_rwlock_destroy);

/**
 * Calls fn(arg), unless the fn of an earlier call with this once has returned 0. Waits while another caller's fn runs.
 * Another result of fn is that of this call, and the first waiter or the next caller calls its own fn; also if the
 * fiber that calls fn ends in it.
 *
 * Switches: yes, unless it was done before. Errors: -EDEADLK fn calls it for the same once.
 */
FIBERRT_API int fiber_once(fiber_once_t *once, int (*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_once) FIBERRT_CHECK_RESULT;

/** Makes a barrier for rounds of count callers, which no caller uses yet. Errors: -EINVAL count is not above 0. */
FIBERRT_API int fiber_barrier_init(fiber_barrier_t *barrier, int64_t count) FIBERRT_LINKNAME(fiber_barrier_init);
/**
 * Waits until as many callers have arrived as the barrier counts. Then all continue, and the next round begins. Returns
 * 1 in the caller that arrived last, 0 in the others. A call that returns an error has not arrived. Every caller sees,
 * after its wait, the writes that the others made before they arrived.
 *
 * Switches: yes. Errors: -EINVAL the barrier was not initialised.
 */
FIBERRT_API int fiber_barrier_wait(fiber_barrier_t *barrier) FIBERRT_LINKNAME(fiber_barrier_wait) FIBERRT_CHECK_RESULT;
/** Waits at a barrier, at most timeout_ns. With 0 it succeeds only if the caller is the last to arrive. */
FIBERRT_API int fiber_barrier_wait_timeout(fiber_barrier_t *barrier, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_barrier_wait_timeout) FIBERRT_CHECK_RESULT;
/** Destroys a barrier. Errors: -EBUSY a caller waits at it. */
FIBERRT_API int fiber_barrier_destroy(fiber_barrier_t *barrier) FIBERRT_LINKNAME(fiber_barrier_destroy);

/* ------------------------------------------------------------------------------------------------------------------
 * Channels
 *
 * A channel is a queue of items of one size, which are copied in and out, between fibers and threads. Waits are as
 * "Locks and other primitives" says.
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: those of a handle; -EINVAL a pointer is NULL or a
 * timeout negative.
 * --------------------------------------------------------------------------------------------------------------- */

/* The largest item, in bytes. For larger data send pointers. */
#define FIBER_CHAN_ITEM_MAX 4096

/**
 * Makes a channel for capacity items of item_size bytes; with capacity 0 a send waits until a receiver has the item.
 * fiber_chan_destroy destroys it. Errors: -EINVAL item_size is 0 or above FIBER_CHAN_ITEM_MAX; -ENOMEM; -EAGAIN there
 * are 1,048,576 channels already.
 */
FIBERRT_API int fiber_chan_create(fiber_chan_t *out, size_t item_size, size_t capacity)
    FIBERRT_LINKNAME(fiber_chan_create);
/** Sends a copy of the item that item points to; waits for room, or with capacity 0 for a receiver. If the result is
 *  not 0, the item was not sent. Switches: yes. Errors: -EPIPE the channel is closed. */
FIBERRT_API int fiber_chan_send(fiber_chan_t chan, const void *item)
    FIBERRT_LINKNAME(fiber_chan_send) FIBERRT_CHECK_RESULT;
/** Receives the oldest item into the memory that item points to; waits for one. An item granted to a fiber whose thread
 *  ends goes to the next receiver, regardless of order. Switches: yes. Errors: -EPIPE the channel is closed and
 *  empty. */
FIBERRT_API int fiber_chan_recv(fiber_chan_t chan, void *item) FIBERRT_LINKNAME(fiber_chan_recv) FIBERRT_CHECK_RESULT;
/** Sends an item, waiting at most timeout_ns. */
FIBERRT_API int fiber_chan_send_timeout(fiber_chan_t chan, const void *item, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_chan_send_timeout) FIBERRT_CHECK_RESULT;
/** Receives an item, waiting at most timeout_ns. */
FIBERRT_API int fiber_chan_recv_timeout(fiber_chan_t chan, void *item, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_chan_recv_timeout) FIBERRT_CHECK_RESULT;
/** Sends an item if that needs no wait. Errors: -EAGAIN it would have to wait; -EPIPE the channel
 *  is closed. */
FIBERRT_API int fiber_chan_try_send(fiber_chan_t chan, const void *item) FIBERRT_LINKNAME(fiber_chan_try_send);
/** Receives an item if there is one, or a sender waits. Errors: -EAGAIN there is none; -EPIPE the
 *  channel is closed and empty. */
FIBERRT_API int fiber_chan_try_recv(fiber_chan_t chan, void *item)
    FIBERRT_LINKNAME(fiber_chan_try_recv) FIBERRT_CHECK_RESULT;
/** Closes a channel: sends fail from now on, receives once it is empty. Waiting callers return at once; the items of
 *  waiting senders are not sent. Errors: -EPIPE it is closed already. */
FIBERRT_API int fiber_chan_close(fiber_chan_t chan) FIBERRT_LINKNAME(fiber_chan_close);
/** Destroys a channel; items left in it are dropped. Errors: -EBUSY a caller waits in it: close it first. */
FIBERRT_API int fiber_chan_destroy(fiber_chan_t chan) FIBERRT_LINKNAME(fiber_chan_destroy);
/** Returns the number of items in a channel. */
FIBERRT_API int64_t fiber_chan_count(fiber_chan_t chan) FIBERRT_LINKNAME(fiber_chan_count);
/** Returns the capacity of a channel, in items. */
FIBERRT_API int64_t fiber_chan_capacity(fiber_chan_t chan) FIBERRT_LINKNAME(fiber_chan_capacity);
/** Tells whether a channel is closed: 1 or 0. */
FIBERRT_API int fiber_chan_is_closed(fiber_chan_t chan) FIBERRT_LINKNAME(fiber_chan_is_closed);

/* ------------------------------------------------------------------------------------------------------------------
 * Select
 * --------------------------------------------------------------------------------------------------------------- */

/* One case of a select: a call, and its arguments. */
typedef struct {
    int32_t kind;        /* FIBER_CASE_… */
    int32_t fd;          /* FD: the descriptor */
    fiber_chan_t chan;   /* SEND, RECV */
    void *item;          /* SEND: the item, only read; RECV: the memory to receive into */
    void *object;        /* EVENT: fiber_event_t *, SEM: fiber_sem_t * */
    int64_t number;      /* SEM: permits, at least 1; TIMER: nanoseconds from the call on; FD: events of poll(2);
                          * SCOPE, set if the case is selected and its result is 1: the result of the child */
    fiber_t fiber;       /* JOIN; SCOPE, set as number is: the child */
    fiber_scope_t scope; /* SCOPE */
    void *value;         /* JOIN, set if the case is selected and its result is 0: the fiber's result */
    int64_t result;      /* set if the case is selected: the call's result; 0 for TIMER */
} fiber_case_t;

#define FIBER_CASE_NONE 0  /* never happens */
#define FIBER_CASE_SEND 1  /* fiber_chan_send */
#define FIBER_CASE_RECV 2  /* fiber_chan_recv */
#define FIBER_CASE_EVENT 3 /* fiber_event_wait */
#define FIBER_CASE_SEM 4   /* fiber_sem_wait */
#define FIBER_CASE_TIMER 5 /* number nanoseconds have passed */
#define FIBER_CASE_JOIN 6  /* fiber_join */
#define FIBER_CASE_FD 7    /* fiber_poll_fd */
#define FIBER_CASE_SCOPE 8 /* fiber_scope_next */

/* The most cases of one call. */
#define FIBER_SELECT_MAX 1024

/**
 * Waits until one of several calls need not wait, and makes that call and no other. Waits at most timeout_ns. Returns
 * the call's index. If several could be made, the library rotates which one it tries first. The cases and their objects
 * must live until it returns.
 *
 *     fiber_case_t cases[] = {{.kind = FIBER_CASE_RECV, .chan = requests, .item = &request},
 *                             {.kind = FIBER_CASE_EVENT, .object = &stop}};
 *     int which = fiber_select(cases, 2, FIBER_FOREVER);
 *     if (which == 0 && cases[0].result == 0) serve(&request);
 *
 *   - A call that fails at once need not wait: -EPIPE of a closed channel becomes the case's result, and so does 0 of a
 *     scope whose children have all been reported. Without cases, or with FIBER_CASE_NONE only, fiber_select waits
 *     until the timeout.
 *   - A SEM that was not selected keeps its place before later waiters until this call returns, even if there are
 *     permits.
 *   - JOIN, FD and SCOPE are for fibers: the thread gets a cord. An FD needs a fiber while it waits (-EAGAIN: there is
 *     no stack for it). The end of a fiber or child of another cord may be seen a moment later, and not with a timeout
 *     of 0.
 *
 * Where: anywhere. Switches: yes. Since: 0.1. Errors: -ETIMEDOUT; -EINVAL cases is NULL though count is not 0, count is
 * not in 0 … FIBER_SELECT_MAX, timeout_ns is negative, or a case makes no sense; -ENOMEM more than 8 cases, and no
 * memory.
 */
FIBERRT_API int fiber_select(fiber_case_t *cases, int count, int64_t timeout_ns) FIBERRT_LINKNAME(fiber_select);

/* ------------------------------------------------------------------------------------------------------------------
 * Input and output
 *
 * The POSIX calls of the same names, with their arguments and results. They park the fiber instead of blocking the
 * thread, with O_NONBLOCK or without; they leave that flag as it was (fiber_connect sets it for a moment). They take no
 * more from the kernel than the caller asks for. Sockets never raise SIGPIPE. The memory handed to a call is the
 * caller's again when the call has returned, not before, even if it was cancelled. If the descriptor is ready at the
 * moment when a cancel, an interrupt, a deadline or fiber_close ends a wait, the call tries once more and returns that
 * result: no completed transfer is lost, and the next call reports the cancel.
 *
 * These calls differ from the kernel's:
 *   - SO_RCVTIMEO and SO_SNDTIMEO have no effect: use a scope. SO_RCVLOWAT counts only while a call waits.
 *   - A send or write to a socket, pipe or terminal may return when some bytes are taken.
 *   - Fibers of one thread that share a file's position take turns. Threads and processes do not: use offsets or
 *     O_APPEND.
 *   - close(2) on a descriptor with an operation under way is undefined: use fiber_close.
 * docs/io.md has the corners and the limits of libev; docs/posix-calls.md lists when calls return.
 *
 * Defaults: Where: a fiber. Switches: yes. Since: 0.1. Errors, beside the POSIX ones:
 *   -ENOTSUP  there is no backend (see fiber_backend_name), or it is sim, and other processes could use the file too
 *             (docs/simulation.md);
 *   -EINVAL   FIBERRT_BACKEND names no known backend;
 *   -ENOMEM, -EMFILE, -ENFILE, -ENOSPC  no memory, descriptor or epoll watch for the backend, at the thread's first
 *             operation; a later one tries again;
 *   -EBADF    the descriptor is closed, or fiber_close closed it during the call;
 *   -EINVAL   a NULL pointer where memory is needed; a count above SSIZE_MAX. (A call transfers at most 2,147,479,552
 *             bytes, as the kernel does.)
 * --------------------------------------------------------------------------------------------------------------- */

/** Reads up to count bytes at the file's position. Returns the number of bytes, 0 at the end. */
FIBERRT_API int64_t fiber_read(int fd, void *buffer, size_t count) FIBERRT_LINKNAME(fiber_read);
/** Writes up to count bytes at the file's position. Returns the number of bytes. A pipe without a reader raises
 *  SIGPIPE. A write past RLIMIT_FSIZE returns -EFBIG, and may raise SIGXFSZ (docs/io.md): ignore that signal. */
FIBERRT_API int64_t fiber_write(int fd, const void *buffer, size_t count) FIBERRT_LINKNAME(fiber_write);
/** Reads into several buffers. Errors: -EINVAL count is outside 0 … 1,024. */
FIBERRT_API int64_t fiber_readv(int fd, const struct iovec *iov, int count) FIBERRT_LINKNAME(fiber_readv);
/** Writes from several buffers, as fiber_write. Errors: -EINVAL count is outside 0 … 1,024. */
FIBERRT_API int64_t fiber_writev(int fd, const struct iovec *iov, int count) FIBERRT_LINKNAME(fiber_writev);
/** Reads at an offset in bytes; the file's position stays. Returns the number of bytes, 0 at the end. */
FIBERRT_API int64_t fiber_pread(int fd, void *buffer, size_t count, int64_t offset) FIBERRT_LINKNAME(fiber_pread);
/** Writes at an offset in bytes; the file's position stays. Returns the number of bytes. */
FIBERRT_API int64_t fiber_pwrite(int fd, const void *buffer, size_t count, int64_t offset)
    FIBERRT_LINKNAME(fiber_pwrite);
/** Receives up to count bytes. flags as recv(2); MSG_DONTWAIT: -EAGAIN instead of a wait. Returns the number of bytes,
 *  0 at the end of a stream. */
FIBERRT_API int64_t fiber_recv(int fd, void *buffer, size_t count, int flags) FIBERRT_LINKNAME(fiber_recv);
/** Sends up to count bytes. flags as send(2), with MSG_NOSIGNAL added; MSG_DONTWAIT as in fiber_recv. Returns the
 *  number of bytes. */
FIBERRT_API int64_t fiber_send(int fd, const void *buffer, size_t count, int flags) FIBERRT_LINKNAME(fiber_send);
/** Receives a message, as recvmsg(2). Descriptors received are the caller's to close. */
FIBERRT_API int64_t fiber_recvmsg(int fd, struct msghdr *message, int flags) FIBERRT_LINKNAME(fiber_recvmsg);
/** Sends a message, as sendmsg(2), with MSG_NOSIGNAL added. */
FIBERRT_API int64_t fiber_sendmsg(int fd, const struct msghdr *message, int flags) FIBERRT_LINKNAME(fiber_sendmsg);
/** Receives as fiber_recv does, and returns the sender's address: at most *length bytes of it in *address (if that is
 *  not NULL), and its full size in *length; 0 for a connection. A call that fails leaves both. Errors: -EINVAL address
 *  is not NULL and length is, or *length is negative; -EFAULT length points to no memory; as fiber_recv. */
FIBERRT_API int64_t fiber_recvfrom(int fd, void *buffer, size_t count, int flags, struct sockaddr *address,
                                   socklen_t *length) FIBERRT_LINKNAME(fiber_recvfrom);
/** Sends as fiber_send does, to an address of length bytes; NULL: to the socket's peer. Errors: -EINVAL address is not
 *  NULL and length is 0, or larger than any address; as fiber_send. */
FIBERRT_API int64_t fiber_sendto(int fd, const void *buffer, size_t count, int flags, const struct sockaddr *address,
                                 socklen_t length) FIBERRT_LINKNAME(fiber_sendto);
/** Accepts one connection. Returns its descriptor, the caller's to close, without O_CLOEXEC. Errors: -EMFILE no
 *  descriptor is free, at the call or when a connection comes; the next accept gets that connection. */
FIBERRT_API int fiber_accept(int fd, struct sockaddr *address, socklen_t *length) FIBERRT_LINKNAME(fiber_accept);
/** Accepts one connection, with the flags of accept4(2): SOCK_NONBLOCK, SOCK_CLOEXEC. */
FIBERRT_API int fiber_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
    FIBERRT_LINKNAME(fiber_accept4);
/** Connects a socket. After the caller's own -ECANCELED, -EINTR or -ETIMEDOUT close the socket: the kernel may continue
 *  the attempt. */
FIBERRT_API int fiber_connect(int fd, const struct sockaddr *address, socklen_t length)
    FIBERRT_LINKNAME(fiber_connect);
/** Opens a file, as open(2). mode counts with O_CREAT or O_TMPFILE. Returns a descriptor, the caller's to close. */
FIBERRT_API int fiber_open(const char *path, int flags, mode_t mode) FIBERRT_LINKNAME(fiber_open);
/** Closes a descriptor. First it ends the operations of other fibers on it, of any cord, with -EBADF, unless they have
 *  completed. It waits until the threads of these cords poll: none of them may wait for this thread in turn. This
 *  includes cords with an operation on a number that differs from fd by a multiple of 1024. No deadline ends the wait.
 *  It needs no backend. Switches: yes; a cancelled fiber may call it too. Errors: -EBADF also if another fiber is
 *  closing it. */
FIBERRT_API int fiber_close(int fd) FIBERRT_LINKNAME(fiber_close);
struct statx;
/** Reads the status of a file, as statx(2). */
FIBERRT_API int fiber_statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *out)
    FIBERRT_LINKNAME(fiber_statx);
/** Waits until the data and the metadata of a file are on stable storage. */
FIBERRT_API int fiber_fsync(int fd) FIBERRT_LINKNAME(fiber_fsync);
/** Waits until the data of a file are on stable storage. */
FIBERRT_API int fiber_fdatasync(int fd) FIBERRT_LINKNAME(fiber_fdatasync);
/** Waits until a descriptor is ready for one of events (POLLIN, POLLOUT, … of poll(2)). Returns the events that hold,
 *  with POLLERR and POLLHUP where they apply. Files that cannot be polled are always ready. Errors: -EINVAL events is
 *  not positive, or is above 0xFFFF. */
FIBERRT_API int fiber_poll_fd(int fd, int events) FIBERRT_LINKNAME(fiber_poll_fd);

/* Names in the file system. A relative path begins in the directory dirfd, or in the current one if dirfd is AT_FDCWD.
 * A call that has begun to change the file system is not ended early: after an error of the caller's own (-ECANCELED,
 * -EINTR, -ETIMEDOUT) nothing was done. */

struct open_how;
/** Opens a file as openat2(2) does. how is a struct open_how (<linux/openat2.h>) of size bytes. Returns a descriptor,
 *  the caller's to close. Errors: -ENOSYS before Linux 5.6. */
FIBERRT_API int fiber_openat2(int dirfd, const char *path, struct open_how *how, size_t size)
    FIBERRT_LINKNAME(fiber_openat2);
/** Renames a file, as renameat2(2). flags: RENAME_NOREPLACE, RENAME_EXCHANGE, … */
FIBERRT_API int fiber_renameat2(int old_dirfd, const char *old_path, int new_dirfd, const char *new_path, unsigned flags)
    FIBERRT_LINKNAME(fiber_renameat2);
/** Renames a file, as rename(2). */
FIBERRT_API int fiber_rename(const char *old_path, const char *new_path) FIBERRT_LINKNAME(fiber_rename);
/** Removes a name, as unlinkat(2). flags: AT_REMOVEDIR. */
FIBERRT_API int fiber_unlinkat(int dirfd, const char *path, int flags) FIBERRT_LINKNAME(fiber_unlinkat);
/** Removes a name, as unlink(2). */
FIBERRT_API int fiber_unlink(const char *path) FIBERRT_LINKNAME(fiber_unlink);
/** Removes an empty directory, as rmdir(2). */
FIBERRT_API int fiber_rmdir(const char *path) FIBERRT_LINKNAME(fiber_rmdir);
/** Makes a directory, as mkdirat(2). */
FIBERRT_API int fiber_mkdirat(int dirfd, const char *path, mode_t mode) FIBERRT_LINKNAME(fiber_mkdirat);
/** Makes a directory, as mkdir(2). */
FIBERRT_API int fiber_mkdir(const char *path, mode_t mode) FIBERRT_LINKNAME(fiber_mkdir);
/** Reads entries of a directory that was opened with O_DIRECTORY, as getdents64(2). Returns the bytes that the entries
 *  take in buffer, 0 at the end. Each is a struct dirent64 (<dirent.h>) of d_reclen bytes:
 *      while ((got = fiber_getdents64(fd, buffer, sizeof buffer)) > 0)
 *          for (char *at = buffer; at < buffer + got; at += ((struct dirent64 *)at)->d_reclen)
 *              use(((struct dirent64 *)at)->d_name);
 *  Align the buffer as that structure is; 32 KiB are a good size, 280 bytes enough for any entry. Errors:
 *  -EINVAL there is no room for the next entry. */
FIBERRT_API int64_t fiber_getdents64(int fd, void *buffer, size_t size) FIBERRT_LINKNAME(fiber_getdents64);

/* Data from one descriptor to another, without a copy in the program. Unlike fiber_write, these calls raise no SIGPIPE;
 * docs/io.md names an exception of fiber_copy. */

/** Moves up to count bytes between a pipe and another file, or between two pipes, as splice(2). The call adds the bytes
 *  moved to each offset; NULL means the file's own position, and is required without positions. flags: SPLICE_F_MORE,
 *  …; SPLICE_F_NONBLOCK: -EAGAIN instead of a wait. Returns the number of bytes, 0 at the end of fd_in; at most a page
 *  (4,096) into a socket or device without O_NONBLOCK. Errors: those of splice(2); -EPIPE fd_out has no reader;
 *  -EMFILE, -ENFILE there are no two descriptors for the copy into a socket without O_NONBLOCK.
 */
FIBERRT_API int64_t fiber_splice(int fd_in, int64_t *offset_in, int fd_out, int64_t *offset_out, size_t count,
                                 unsigned flags) FIBERRT_LINKNAME(fiber_splice);

#define FIBER_COPY_ALL INT64_MAX /* as the limit: up to the end */

/**
 * Copies from fd_in to fd_out, up to the end of fd_in or limit bytes. Returns the number of bytes written. It closes,
 * shuts down and syncs nothing. Files with positions are copied from and to their positions, sockets for messages
 * message by message, up to an empty one.
 *
 * After an error - disk full, a connection reset, a cancel - *written is the number of bytes written, and *lost the
 * number of bytes taken from fd_in that were not written and cannot be read again (both may be NULL). None are lost if
 * fd_in has positions, or by a cancel, interrupt or deadline if fd_out has. From stream to stream up to 1 MiB may be
 * lost; fiber_splice with the caller's own pipe loses none.
 *
 * Errors: those of fiber_read from fd_in and fiber_write to fd_out; -EINVAL limit is below 0, a regular file would be
 * copied over the bytes read from it, or a pipe into itself; -EMSGSIZE a message is longer than 128 KiB or than the
 * rest of the limit: its rest is lost; -ENOMEM.
 */
FIBERRT_API int64_t fiber_copy(int fd_in, int fd_out, int64_t limit, int64_t *written, int64_t *lost)
    FIBERRT_LINKNAME(fiber_copy);

/* Descriptors through a unix socket. */

#define FIBER_FDS_MAX 253 /* descriptors that one message can carry */

/** Sends bytes and descriptors through a unix socket. The fd_count descriptors go with the first byte, and stay the
 *  caller's too. Returns the number of bytes sent; if less than count (on a stream), all descriptors have gone. Errors:
 *  -EINVAL fd_count is above FIBER_FDS_MAX, or there are descriptors and no byte to carry them; -EBADF also if one of
 *  fds is closed: nothing is sent; -ETOOMANYREFS too many are under way. */
FIBERRT_API int64_t fiber_send_fds(int fd, const void *buffer, size_t count, const int *fds, size_t fd_count)
    FIBERRT_LINKNAME(fiber_send_fds);
/** Receives up to count bytes, and the descriptors sent with them, which are the caller's to close and have O_CLOEXEC.
 *  *fd_count is the room in fds, and then the number received. On a stream, the next call gets bytes sent with other
 *  descriptors. Returns the number of bytes, 0 at the end. *flags (may be NULL) is as recvmsg(2) sets it: MSG_CTRUNC if
 *  the call closed descriptors for lack of room in fds or in the process (RLIMIT_NOFILE); MSG_TRUNC if the rest of a
 *  datagram is lost. Errors: -EINVAL count is 0. */
FIBERRT_API int64_t fiber_recv_fds(int fd, void *buffer, size_t count, int *fds, size_t *fd_count, int *flags)
    FIBERRT_LINKNAME(fiber_recv_fds);

/* ------------------------------------------------------------------------------------------------------------------
 * Names and blocking code
 *
 * Code that can only block, such as a database library, runs on offload threads of the process, made as needed, while
 * the thread of the calling fiber runs other fibers.
 *
 *     static int64_t find(void *arg) { return sqlite3_step(arg); }
 *
 *     int64_t answer;
 *     int error = fiber_offload(find, statement, &answer);
 *
 * The function runs on that thread's stack, with signals blocked as on cords.
 *   - It must leave the thread as it found it (locks, signals), and not by pthread_exit or an exception.
 *   - It may call this library and wait as any thread does. A cord that it opens ends with it, and fibers left there
 *     never run again. A function that it offloads is called at once.
 *   - At most 64 functions run at once (fiber_offload_set_limit). Further ones wait, in order. So at most 64 functions
 *     may wait for each other.
 *   - A cord does not end, and a thread with a cord does not exit, before its fibers' functions have returned, except
 *     detached ones. Returning from main, or exit(), waits for none.
 *   - In a simulation it runs on the calling fiber's stack, in a no-switch section.
 *
 * Defaults: Where: a fiber. Switches: yes. Since: 0.1.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Calls fn(arg) on another thread and waits for its end. Returns 0, and the result of fn in *result (may be NULL). A
 * cancel, interrupt or deadline ends the wait only before fn has begun; then fn never runs. Once fn runs, the call
 * waits for it, and the next call reports the cancel: arg may point to the caller's stack. After an error fn has not
 * run.
 *
 * Errors: -EINVAL fn is NULL; -EAGAIN there is no thread, and none could be made.
 */
FIBERRT_API int fiber_offload(int64_t (*fn)(void *), void *arg, int64_t *result)
    FIBERRT_LINKNAME(fiber_offload) FIBERRT_CHECK_RESULT;

/**
 * Calls fn(arg) on another thread as fiber_offload does, but a cancel, interrupt or deadline ends the wait at once: fn,
 * if it has begun, continues without the caller, and its result is lost.
 *
 * free_arg(arg) is called exactly once (NULL: no function), when neither fn nor this call needs arg any more, whatever
 * the call returns except -EINVAL: before it returns, if fn has returned or will never run; otherwise by fn's thread.
 * (If the fiber's thread exits in this call, that thread calls it.) It must neither block nor switch.
 *
 * Errors: as fiber_offload; -ENOMEM.
 */
FIBERRT_API int fiber_offload_detached(int64_t (*fn)(void *), void *arg, void (*free_arg)(void *), int64_t *result)
    FIBERRT_LINKNAME(fiber_offload_detached) FIBERRT_CHECK_RESULT;

/**
 * Sets how many offloaded functions run at once in the process; the default is 64. After a lower limit running
 * functions continue.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL threads is not in 1 … 1,024.
 */
FIBERRT_API int fiber_offload_set_limit(int threads) FIBERRT_LINKNAME(fiber_offload_set_limit);

struct addrinfo;
/**
 * Looks up the addresses of a name, as getaddrinfo(3), in a detached offloaded function. Numbers need no other thread
 * (except with AI_IDN and AI_CANONIDN). The caller frees *out by freeaddrinfo(3); it is NULL after an error. The
 * library copies the texts and hints.
 *
 * Errors: -EINVAL out, or both node and service are NULL, or EAI_BADFLAGS; -ENOENT no such name or service (EAI_NONAME,
 * EAI_SERVICE); -ENODATA no address, or none of that family (EAI_NODATA, EAI_ADDRFAMILY); -EAGAIN no name server has
 * answered (EAI_AGAIN), or no thread could be made; -EMFILE, -ENFILE no descriptor for the resolver; -EIO the servers
 * refuse (EAI_FAIL), or any other error; -EOVERFLOW a text is too long (EAI_OVERFLOW); -EAFNOSUPPORT, -ESOCKTNOSUPPORT
 * the system lacks the hints' family or type; -ENOMEM; for EAI_SYSTEM its errno, or -EAGAIN if that would speak of the
 * caller; -ENOTSUP in a simulation, if a text is not a number.
 */
FIBERRT_API int fiber_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                                  struct addrinfo **out) FIBERRT_LINKNAME(fiber_getaddrinfo);

/**
 * Connects a stream to an address given as text: "host:port", "[host]:port", "unix:path" or "unix:@name". Returns the
 * connected descriptor, the caller's to close. host is a name or a numeric address, IPv6 only in brackets; port is a
 * number or a service's name; @name is in Linux's abstract namespace. flags: SOCK_CLOEXEC, SOCK_NONBLOCK.
 *
 * Several addresses of a name are tried in parallel, as RFC 8305 says (docs/io.md), by fibers of the calling cord that
 * end before the call does. Use a scope: the kernel lets an attempt take some two minutes.
 *
 * Errors: -EINVAL address is NULL or none of these, the port is not in 1 … 65,535, or an unknown flag; -ENAMETOOLONG
 * the host has more than 255 bytes, the path or '@' and name more than 107; those of fiber_getaddrinfo, socket(2) and
 * fiber_connect, and with several addresses of fiber_scope_spawn; of several attempts the first error about the other
 * side (-ECONNREFUSED before -ENETUNREACH); -ENOMEM.
 */
FIBERRT_API int fiber_dial(const char *address, int flags) FIBERRT_LINKNAME(fiber_dial);

/* ------------------------------------------------------------------------------------------------------------------
 * Child processes
 *
 * A child process with pipes to its input and from its output:
 *
 *     fiber_process_attr_t *attr;
 *     pid_t child;
 *     int pipes[3], status;
 *     char *const words[] = {"sort", NULL};
 *     fiber_process_attr_create(&attr);
 *     fiber_process_attr_set_stream(attr, 0, FIBER_PROCESS_PIPE);
 *     fiber_process_attr_set_stream(attr, 1, FIBER_PROCESS_PIPE);
 *     fiber_process_spawn(&child, pipes, attr, "sort", words);
 *     talk(pipes[0], pipes[1]);     // one fiber writes and closes, another reads to the end
 *     fiber_process_wait(child, &status, FIBER_SEC(5));
 *
 * The library installs no signal handler, and reaps no child unless a call asks for it; the kernel keeps the exit
 * status, unless the program ignores SIGCHLD.
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: -EINVAL attr, out, mask or signals is NULL, unless the
 * comment allows NULL.
 * --------------------------------------------------------------------------------------------------------------- */

/* What fiber_process_attr_set_stream takes, besides descriptors. */
#define FIBER_PROCESS_INHERIT (-1) /* the program's own */
#define FIBER_PROCESS_PIPE (-2)    /* a pipe, whose other end fiber_process_spawn gives to the caller */
#define FIBER_PROCESS_NULL (-3)    /* /dev/null */
#define FIBER_PROCESS_STDOUT (-4)  /* for stream 2: the file of stream 1 */

/* The most descriptors that fiber_process_attr_add_fd can give a child, besides its standard streams. */
#define FIBER_PROCESS_FDS_MAX 64

/**
 * Makes an attribute object for processes, with the defaults of the setters. The caller frees *out with
 * fiber_process_attr_destroy.
 *
 * Errors: -ENOMEM.
 */
FIBERRT_API int fiber_process_attr_create(fiber_process_attr_t **out) FIBERRT_LINKNAME(fiber_process_attr_create);

/** Frees an attribute object; NULL does nothing. Errors: none. */
FIBERRT_API int fiber_process_attr_destroy(fiber_process_attr_t *attr) FIBERRT_LINKNAME(fiber_process_attr_destroy);

/**
 * Sets one of the child's standard streams (0 input, 1 output, 2 errors) to one of FIBER_PROCESS_*, or to a copy, not
 * closed on exec, of a descriptor, which must be open at the spawn. The default is FIBER_PROCESS_INHERIT.
 *
 * Errors: -EINVAL stream is not 0, 1 or 2, source is neither a descriptor nor one of FIBER_PROCESS_*, or is
 * FIBER_PROCESS_STDOUT for another stream than 2.
 */
FIBERRT_API int fiber_process_attr_set_stream(fiber_process_attr_t *attr, int stream, int source)
    FIBERRT_LINKNAME(fiber_process_attr_set_stream);

/**
 * Gives the child one more descriptor: a copy of source as number fd, not closed on exec. source must be open at the
 * spawn; it may be fd itself, or the fd of another source. A later source for the same fd counts.
 *
 *     fiber_process_attr_add_fd(attr, 3, listener);
 *
 * Errors: -EINVAL fd is below 3, or source below 0; -EMFILE there are FIBER_PROCESS_FDS_MAX already.
 */
FIBERRT_API int fiber_process_attr_add_fd(fiber_process_attr_t *attr, int fd, int source)
    FIBERRT_LINKNAME(fiber_process_attr_add_fd);

/**
 * Sets whether the child begins a new session, as by setsid(2) (session is not 0). It then leads a process group too,
 * as with group 0; with a group above 0 fiber_process_spawn fails. The default is no new session.
 */
FIBERRT_API int fiber_process_attr_set_session(fiber_process_attr_t *attr, int session)
    FIBERRT_LINKNAME(fiber_process_attr_set_session);

/**
 * Sets the environment: an array of "NAME=value" that ends with NULL. NULL, the default: the program's own at the
 * spawn.
 *
 * Errors: -ENOMEM.
 */
FIBERRT_API int fiber_process_attr_set_environment(fiber_process_attr_t *attr, char *const environment[])
    FIBERRT_LINKNAME(fiber_process_attr_set_environment);

/**
 * Sets the directory in which the child begins; a relative file is looked up from there. NULL, the default: the
 * program's own.
 *
 * Errors: -ENOMEM.
 */
FIBERRT_API int fiber_process_attr_set_directory(fiber_process_attr_t *attr, const char *path)
    FIBERRT_LINKNAME(fiber_process_attr_set_directory);

/**
 * Sets the process group that the child joins. 0: a new group, which the child leads; fiber_process_wait then signals
 * the whole group. -1, the default: the program's group.
 *
 * Errors: -EINVAL group is below -1.
 */
FIBERRT_API int fiber_process_attr_set_group(fiber_process_attr_t *attr, pid_t group)
    FIBERRT_LINKNAME(fiber_process_attr_set_group);

/** Sets the signals that the child begins with blocked; the default is none. */
FIBERRT_API int fiber_process_attr_set_mask(fiber_process_attr_t *attr, const sigset_t *mask)
    FIBERRT_LINKNAME(fiber_process_attr_set_mask);

/** Sets the signals that have their default dispositions in the child; the default is SIGPIPE. */
FIBERRT_API int fiber_process_attr_set_default_signals(fiber_process_attr_t *attr, const sigset_t *signals)
    FIBERRT_LINKNAME(fiber_process_attr_set_default_signals);

/**
 * Runs a program in a child process. file is its path or, without a slash, a name to find in the program's PATH; argv
 * its arguments from its name on, with NULL at the end. attr NULL: the defaults. The child, *pid, is reaped by
 * fiber_process_wait or fiber_waitpid. The child inherits all other descriptors not closed on exec. The call blocks the
 * thread until the program is loaded. After an error there is no child and no new descriptor; *pid and pipes are
 * unchanged.
 *
 * pipes (NULL if no stream is a pipe) receives the caller's ends, -1 for other streams: pipes[0] to write the child's
 * input, pipes[1] and pipes[2] to read its output. They are the caller's to close, and closed on exec. Write and read
 * in two fibers, or child and program may wait for each other. Ignore SIGPIPE (see fiber_write).
 *
 * Where: a fiber. Errors: -EINVAL pid, file, argv or argv[0] is NULL, pipes is NULL and a stream is a pipe, or the
 * attributes have both a session and a process group above 0; -EBADF a stream or an added source is not open, or an
 * added number is not below RLIMIT_NOFILE; -EMFILE, -ENFILE; -EAGAIN there may be no more processes; -ENOMEM; -ENOENT
 * there is no such program or directory; -ENOTSUP in a simulation; those of execve(2), chdir(2) and setpgid(2), such as
 * -EACCES, -ENOEXEC and -E2BIG.
 */
FIBERRT_API int fiber_process_spawn(pid_t *pid, int pipes[3], const fiber_process_attr_t *attr, const char *file,
                                    char *const argv[]) FIBERRT_LINKNAME(fiber_process_spawn);

/**
 * Waits until a child process has ended, and reaps it; *status (may be NULL) is then as waitpid(2) says. If the caller
 * is cancelled, or one of its deadlines fires, before the call or during it, the call ends the child: it sends SIGTERM
 * and SIGCONT, and SIGKILL grace_ns later; with a grace of 0 only SIGKILL, with FIBER_FOREVER no SIGKILL. If the child
 * leads a process group, the whole group gets them. The call then returns only after reaping the child, or with
 * -EACCES.
 *
 * Where: a fiber. Switches: yes; a cancelled fiber may call it too. Errors: -ECANCELED, -ETIMEDOUT the child has ended,
 * and *status tells how; -EINTR the caller was interrupted: the child lives on; -EACCES the child has changed its user
 * and may not be sent signals: it lives on; -EINVAL pid or grace_ns is wrong; -ECHILD as fiber_waitpid; -ENOTSUP in a
 * simulation.
 */
FIBERRT_API int fiber_process_wait(pid_t pid, int *status, int64_t grace_ns) FIBERRT_LINKNAME(fiber_process_wait);

/**
 * Waits until a child process has ended, and reaps it, as waitpid(2): returns pid, and the status in *status (may be
 * NULL). Any thread may have spawned the child, by any means. With WNOHANG it does not wait, and returns 0 if the child
 * lives. Of several callers that wait for one child, one reaps it; the others get -ECHILD. A wait that ends early reaps
 * nothing.
 *
 * Where: a fiber. Switches: yes. Errors: -EINVAL pid is not above 0, or options is neither 0 nor WNOHANG; -ECHILD it is
 * no child of this process, or has been reaped, or the program ignores SIGCHLD and it has ended; -ENOTSUP in a
 * simulation.
 */
FIBERRT_API int fiber_waitpid(pid_t pid, int *status, int options) FIBERRT_LINKNAME(fiber_waitpid);

/* ------------------------------------------------------------------------------------------------------------------
 * Signals
 *
 * A program blocks signals, and fibers wait for them:
 *
 *     sigset_t signals;
 *     sigemptyset(&signals);
 *     sigaddset(&signals, SIGINT);
 *     sigaddset(&signals, SIGTERM);
 *     pthread_sigmask(SIG_BLOCK, &signals, NULL); // at the beginning of main, before there are other threads
 *     while (fiber_sigwait(&signals, NULL) > 0) shut_down(); // in a fiber
 *
 * Blocked signals stay pending until a call takes them. Threads that the library starts begin with all signals blocked
 * except those that an instruction raises (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS); a cord's function may
 * unblock some.
 * --------------------------------------------------------------------------------------------------------------- */

struct signalfd_siginfo;
/**
 * Waits for a signal of a set, takes it, and returns its number. *info (of <sys/signalfd.h>; may be NULL) tells its
 * sender and its value. The first fiber that waits, on any cord, takes a signal that was sent to the process; one that
 * was sent to a thread is for fibers of that thread.
 *
 * Each signal of the set must be blocked on the calling thread, and should be on all others. SIGKILL and SIGSTOP in the
 * set are ignored.
 *
 * Where: a fiber. Switches: yes. Errors: -EINVAL set is NULL or holds no signal that could come, or a signal of it is
 * not blocked on the calling thread; -EMFILE, -ENFILE, -ENOMEM it needs a descriptor while it waits; -ENOTSUP there is
 * no backend, or in a simulation. Since: 0.1
 */
FIBERRT_API int fiber_sigwait(const sigset_t *set, struct signalfd_siginfo *info) FIBERRT_LINKNAME(fiber_sigwait);

/* ------------------------------------------------------------------------------------------------------------------
 * Cords
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: -EINVAL attr, out, fn, name or buffer is NULL, unless
 * NULL is allowed; timeout_ns < 0.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Starts a thread with a cord, whose main flow runs fn(arg). The cord ends when fn has returned and all its fibers have
 * ended, except daemons, which then never run again. (A fiber never started keeps it, too.) The cord must be joined
 * once; otherwise its record is kept. attr NULL: the defaults. The thread begins with signals blocked (see "Signals").
 * A simulation makes no thread.
 *
 * Errors: -EINVAL there is no such processor; -ENOMEM; -EAGAIN no thread could be created, or there are 65,536 cords;
 * -ENOTSUP in a simulation on any thread but the first.
 */
FIBERRT_API int fiber_cord_start(fiber_cord_t *out, const fiber_cord_attr_t *attr, void *(*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_cord_start);

/**
 * Waits until a cord has ended, and receives its function's result in *result (may be NULL). Every caller already
 * waiting gets the result. After the first successful join the handle is stale. The thread's thread-local destructors
 * may still be running.
 *
 * Where: a fiber. Switches: yes. Errors: -EINVAL its thread was not made by fiber_cord_start; -EDEADLK it is the
 * caller's own.
 */
FIBERRT_API int fiber_cord_join(fiber_cord_t cord, void **result)
    FIBERRT_LINKNAME(fiber_cord_join) FIBERRT_CHECK_RESULT;

/** Joins a cord, waiting at most timeout_ns. */
FIBERRT_API int fiber_cord_join_timeout(fiber_cord_t cord, void **result, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_cord_join_timeout) FIBERRT_CHECK_RESULT;

/**
 * Starts a detached fiber that runs fn(arg) on a cord. Posts of one thread to one cord begin in order. An accepted post
 * runs, unless the cord's thread exits or the cord is shut down before.
 *
 * Errors: -ENOMEM; -EAGAIN as fiber_new; -EPIPE the cord is being shut down; -ESRCH the cord has ended.
 */
FIBERRT_API int fiber_post(fiber_cord_t cord, void *(*fn)(void *), void *arg) FIBERRT_LINKNAME(fiber_post);

/**
 * Ends the fibers of a cord, not its thread. From now on it takes no new ones (-EPIPE; those on their way are
 * cancelled). The call waits until the cord's other fibers have ended, except daemons, at most grace_ns; then it
 * cancels all that are left, and waits for these until deadline_ns after the call. Returns the number of fibers left,
 * without the caller and the main flow of a thread that fiber_cord_start has not made.
 *
 * Where: a fiber, of this or another cord. Switches: yes; if the caller's wait ends early, the shutdown of another cord
 * continues. Errors: -EINVAL grace_ns < 0 or deadline_ns < grace_ns; -ENOMEM, -EAGAIN no fiber could be made to do it
 * there; -EBUSY the cord works for a pool.
 */
FIBERRT_API int fiber_cord_shutdown(fiber_cord_t cord, int64_t grace_ns, int64_t deadline_ns)
    FIBERRT_LINKNAME(fiber_cord_shutdown);

/** Returns the handle of the calling thread's cord, in *out. Where: a fiber. */
FIBERRT_API int fiber_cord_self(fiber_cord_t *out) FIBERRT_LINKNAME(fiber_cord_self);

/**
 * Copies a cord's name into buffer, as fiber_name does.
 *
 * Errors: -EINVAL size is 0.
 */
FIBERRT_API int fiber_cord_name(fiber_cord_t cord, char *buffer, size_t size) FIBERRT_LINKNAME(fiber_cord_name);

/**
 * Makes an attribute object for cords: no name, the affinity of the thread that starts the cord. The caller frees *out
 * with fiber_cord_attr_destroy.
 *
 * Errors: -ENOMEM.
 */
FIBERRT_API int fiber_cord_attr_create(fiber_cord_attr_t **out) FIBERRT_LINKNAME(fiber_cord_attr_create);

/** Frees an attribute object; NULL does nothing. Errors: none. */
FIBERRT_API int fiber_cord_attr_destroy(fiber_cord_attr_t *attr) FIBERRT_LINKNAME(fiber_cord_attr_destroy);

/** Names the cord and its thread. The library keeps the first 15 bytes. */
FIBERRT_API int fiber_cord_attr_set_name(fiber_cord_attr_t *attr, const char *name)
    FIBERRT_LINKNAME(fiber_cord_attr_set_name);

/**
 * Sets the processors that the cord's thread may run on, by their numbers; count 0 removes the setting.
 *
 * Errors: -EINVAL cpus is NULL with a count, or a number is below 0 or above 1,023.
 */
FIBERRT_API int fiber_cord_attr_set_affinity(fiber_cord_attr_t *attr, const int *cpus, size_t count)
    FIBERRT_LINKNAME(fiber_cord_attr_set_affinity);

/* ------------------------------------------------------------------------------------------------------------------
 * Pools
 *
 * A pool runs TASKS: functions that need not run on a certain thread. Its WORKERS are cords that it starts; other
 * threads may be bound to it and work as well. A task that has not begun has neither a stack nor a handle, and any of
 * these threads may take it. A task that has begun is a detached fiber of its thread, and may wait.
 *
 *     fiber_pool_t pool;
 *     fiber_pool_create(&pool, NULL);
 *     fiber_wg_add(&group, 2);
 *     fiber_pool_submit(pool, first_half, &work);     // each ends with fiber_wg_done(&group)
 *     fiber_pool_submit(pool, second_half, &work);
 *     int error = fiber_wg_wait(&group);
 *     int lost = fiber_pool_close(pool);
 *
 * To wait for some tasks, use a wait group, or make them children of a scope (fiber_attr_set_pool). Every accepted task
 * runs exactly once, except tasks of a stopped scope (fiber_scope_spawn_attr) and tasks that a bound thread loses when
 * it exits (fiber_pool_bind); fiber_pool_close reports these. On each thread woken fibers come before new tasks, which
 * begin in the order of submission, in two queues that take turns: tasks of that thread only (FIBER_TASK_SAME_THREAD),
 * and all others. Between threads there is no order.
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: -EINVAL attr, out, fn or name is NULL, unless the
 * comment allows NULL.
 * --------------------------------------------------------------------------------------------------------------- */

/* The most workers of a pool, and the most threads that work for one at a time. */
#define FIBER_POOL_WORKERS_MAX 1024

/* Policies of fiber_pool_attr_set_affinity. */
#define FIBER_POOL_ANY_OF 0 /* each worker may run on any of the processors */
#define FIBER_POOL_ONE_OF 1 /* each worker runs on one of them: in turn, by their numbers, each counted once */

/* Flags of fiber_pool_submit_flags. */
#define FIBER_TASK_SAME_THREAD 1u /* on the calling thread, which works for the pool */

/**
 * Makes a pool and starts its workers, with signals blocked (see "Signals"). attr NULL: the defaults. The caller ends
 * the pool with fiber_pool_close.
 *
 * Errors: -EINVAL there is no such processor; -ENOMEM; -EAGAIN no thread could be created, or there are 1,024 pools or
 * 65,536 cords; -ENOTSUP in a simulation on any thread but the first.
 */
FIBERRT_API int fiber_pool_create(fiber_pool_t *out, const fiber_pool_attr_t *attr)
    FIBERRT_LINKNAME(fiber_pool_create);

/**
 * Submits a task to a pool: a thread of the pool runs fn(arg), and drops the result.
 *
 * Errors: -EPIPE the pool is being closed, and the caller is no task of the pool; -ENXIO the pool has no workers, and
 * no thread is bound to it; -ENOMEM.
 */
FIBERRT_API int fiber_pool_submit(fiber_pool_t pool, void *(*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_pool_submit);

/**
 * Submits a task with flags: 0, or FIBER_TASK_SAME_THREAD.
 *
 * Errors: as fiber_pool_submit; -EINVAL an unknown flag; -EPERM with FIBER_TASK_SAME_THREAD: the calling thread does
 * not work for the pool.
 */
FIBERRT_API int fiber_pool_submit_flags(fiber_pool_t pool, void *(*fn)(void *), void *arg, unsigned flags)
    FIBERRT_LINKNAME(fiber_pool_submit_flags);

/**
 * Closes a pool: from now on only its running tasks may submit. Waits until all tasks and the workers' cords have ended
 * and the other bound threads have unbound (it unbinds the calling one); then the pool is gone. If the wait ends early,
 * the pool goes on closing; call again.
 *
 * Where: a fiber. Switches: yes. Errors: -EDEADLK the caller is a fiber of a worker, or one of the tasks; -EBUSY
 * another call closes it; -EOWNERDEAD the pool is gone, but tasks were lost with bound threads.
 */
FIBERRT_API int fiber_pool_close(fiber_pool_t pool) FIBERRT_LINKNAME(fiber_pool_close) FIBERRT_CHECK_RESULT;

/**
 * Binds the calling thread to a pool: it runs tasks (fiber_pool_attr_set_bound_help says which) when its cord has
 * nothing to run, and now and then while it is busy. fiber_pool_unbind ends the binding, and so do fiber_pool_close on
 * this thread and the end of a cord's function (fiber_cord_start). If the thread exits before, its begun tasks never
 * run again, and tasks for it only never begin.
 *
 * Where: a fiber. Errors: -EBUSY the thread is bound already, or is a worker; -EPIPE the pool is being closed, or the
 * cord is shut down, or its function has returned; -EAGAIN 1,024 threads work for it; -ENOMEM.
 */
FIBERRT_API int fiber_pool_bind(fiber_pool_t pool) FIBERRT_LINKNAME(fiber_pool_bind);

/**
 * Unbinds the calling thread from a pool: it takes no more tasks from others, and the call waits until its tasks have
 * ended, with those that these or its fibers submit meanwhile. If the wait ends early, the thread stays bound.
 *
 * Where: a fiber. Switches: yes. Errors: -EPERM the thread is not bound to the pool; -EDEADLK the caller is a task of
 * the pool; -EBUSY another fiber is unbinding it.
 */
FIBERRT_API int fiber_pool_unbind(fiber_pool_t pool) FIBERRT_LINKNAME(fiber_pool_unbind);

/**
 * Makes an attribute object for pools: as many workers as the calling thread has processors, its affinity, stacks of
 * FIBER_STACK_DEFAULT, no initialiser, no name, no task limit, bound threads that help. The caller frees *out with
 * fiber_pool_attr_destroy.
 *
 * Errors: -ENOMEM.
 */
FIBERRT_API int fiber_pool_attr_create(fiber_pool_attr_t **out) FIBERRT_LINKNAME(fiber_pool_attr_create);

/** Frees an attribute object; NULL does nothing. Errors: none. */
FIBERRT_API int fiber_pool_attr_destroy(fiber_pool_attr_t *attr) FIBERRT_LINKNAME(fiber_pool_attr_destroy);

/** Sets the number of workers. With 0, tasks run on bound threads, when these wait. Errors: -EINVAL count is below 0 or
 *  above FIBER_POOL_WORKERS_MAX. */
FIBERRT_API int fiber_pool_attr_set_workers(fiber_pool_attr_t *attr, int count)
    FIBERRT_LINKNAME(fiber_pool_attr_set_workers);

/** Sets the size of the tasks' stacks, as fiber_attr_set_stack_size. Errors: as fiber_attr_set_stack_size. */
FIBERRT_API int fiber_pool_attr_set_stack_size(fiber_pool_attr_t *attr, size_t bytes)
    FIBERRT_LINKNAME(fiber_pool_attr_set_stack_size);

/** Sets the size of the tasks' guards, as fiber_attr_set_guard_size. Errors: as fiber_attr_set_guard_size. */
FIBERRT_API int fiber_pool_attr_set_guard_size(fiber_pool_attr_t *attr, size_t bytes)
    FIBERRT_LINKNAME(fiber_pool_attr_set_guard_size);

/**
 * Sets the processors that the workers may run on, by their numbers; count 0 removes the setting. policy is
 * FIBER_POOL_ANY_OF or FIBER_POOL_ONE_OF.
 *
 * Errors: -EINVAL cpus is NULL with a count, a number is below 0 or above 1,023, or an unknown policy.
 */
FIBERRT_API int fiber_pool_attr_set_affinity(fiber_pool_attr_t *attr, const int *cpus, size_t count, int policy)
    FIBERRT_LINKNAME(fiber_pool_attr_set_affinity);

/**
 * Sets how long an idle worker spins for work before it sleeps, in nanoseconds; the default is 50 microseconds. It
 * spins so long only if that has found work just before, and never with more cords awake than processors.
 *
 * Errors: -EINVAL spin_ns < 0.
 */
FIBERRT_API int fiber_pool_attr_set_spin(fiber_pool_attr_t *attr, int64_t spin_ns)
    FIBERRT_LINKNAME(fiber_pool_attr_set_spin);

/**
 * Sets a function that each worker calls on its main flow before it takes tasks: init(arg, worker), with worker from 0
 * on. It may wait. init NULL removes the setting.
 */
FIBERRT_API int fiber_pool_attr_set_init(fiber_pool_attr_t *attr, void (*init)(void *arg, int worker), void *arg)
    FIBERRT_LINKNAME(fiber_pool_attr_set_init);

/** Names the workers' cords and threads: this name and the worker's number, cut to 15 bytes. */
FIBERRT_API int fiber_pool_attr_set_name(fiber_pool_attr_t *attr, const char *name)
    FIBERRT_LINKNAME(fiber_pool_attr_set_name);

/**
 * Sets how many tasks, each with its stack, may have begun and not ended on each thread of the pool; 0, the default:
 * any number. Threads below the limit take tasks from threads at the limit. Tasks that wait for tasks that have not
 * begun may wait for ever.
 *
 * Errors: -EINVAL count < 0.
 */
FIBERRT_API int fiber_pool_attr_set_task_limit(fiber_pool_attr_t *attr, int count)
    FIBERRT_LINKNAME(fiber_pool_attr_set_task_limit);

/**
 * Sets whether bound threads help the workers (help is not 0, the default). With help 0 a bound thread runs only tasks
 * for that thread (FIBER_TASK_SAME_THREAD). Without workers, bound threads take all tasks.
 */
FIBERRT_API int fiber_pool_attr_set_bound_help(fiber_pool_attr_t *attr, int help)
    FIBERRT_LINKNAME(fiber_pool_attr_set_bound_help);

/* ------------------------------------------------------------------------------------------------------------------
 * Fiber-local values
 *
 * Defaults: Where: a fiber. Switches: no. Since: 0.1. Errors: those of a handle.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Makes a key under which every fiber of the process has its own value, NULL at first. When a fiber ends with a value
 * that is not NULL, the library calls destructor (may be NULL) with it, on the fiber's stack, after closing its scopes
 * and before waking its joiners, shielded from cancels; up to four rounds, if destructors set new values. The values of
 * a main flow are destroyed when its thread exits, in a no-switch section; not at the end of the process.
 *
 * Where: anywhere. Errors: -EINVAL out is NULL; -EAGAIN there are 128 keys already.
 */
FIBERRT_API int fiber_key_create(fiber_key_t *out, void (*destructor)(void *)) FIBERRT_LINKNAME(fiber_key_create);

/**
 * Makes an AMBIENT key: its value is a property of the thread that each fiber should have for itself, such as a signal
 * mask or a locale, but not credentials (docs/per-fiber.md). The library calls apply(old, now), which must put the new
 * value into force, when the next fiber has another value than the fiber before, and at once when a fiber sets its own.
 * NULL, the value of fibers that set none, is the thread's own. Otherwise the key is as one of fiber_key_create;
 * destructor may be NULL.
 *
 * apply runs in a no-switch section, on any stack; the library keeps errno. It may set values of other keys, but not of
 * its own (-EBUSY). At the end of a fiber, apply(its value, NULL) comes before the destructor: old is always valid.
 *
 * Where: anywhere. Errors: -EINVAL out or apply is NULL; -EAGAIN as fiber_key_create.
 */
FIBERRT_API int fiber_key_create_ambient(fiber_key_t *out, void (*destructor)(void *),
                                         void (*apply)(void *old, void *now))
    FIBERRT_LINKNAME(fiber_key_create_ambient);

/**
 * Deletes a key. The library forgets its values without calling destructor or apply: set them to NULL first.
 *
 * Where: anywhere.
 */
FIBERRT_API int fiber_key_delete(fiber_key_t key) FIBERRT_LINKNAME(fiber_key_delete);

/** Returns the calling fiber's value under a key; NULL if it has none or the key is not valid. Errors: none. */
FIBERRT_API void *fiber_key_get(fiber_key_t key) FIBERRT_LINKNAME(fiber_key_get);

/**
 * Sets the calling fiber's value under a key. The old value is not destroyed.
 *
 * Errors: -EBUSY apply of this ambient key is already running on the thread, perhaps in an outer call; -ENOMEM.
 */
FIBERRT_API int fiber_key_set(fiber_key_t key, void *value) FIBERRT_LINKNAME(fiber_key_set);

/* ------------------------------------------------------------------------------------------------------------------
 * Inside another event loop
 *
 * A program with another event loop (GLib's, libev's, one around poll) waits for fiber_cord_fd along with its other
 * descriptors, and then calls fiber_cord_run(0), which runs the thread's fibers (docs/guide/embedding.md).
 *
 * The loop and its callbacks are the thread's main flow, and may make any call of this header: after a spawn, a wakeup
 * or a cancel the descriptor is readable, and the next run does the work. A call that says "Switches: yes" waits here
 * and now: until it returns, the other fibers run, the loop does not.
 *
 * Defaults: Where: the main flow (opens a cord). Switches: no. Since: 0.1. Errors: -EPERM from another fiber.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Returns a descriptor that is readable while fiber_cord_run(0) has work, until the first run, and now and then for the
 * library's housekeeping. Only wait for it (POLLIN): level-triggered; or edge-triggered, if every event is answered by
 * fiber_cord_run, again while that returns 1. The descriptor is the cord's, the same at every call, and closed when the
 * thread ends. The first call opens the backend.
 *
 * Errors: -EMFILE, -ENFILE, -ENOMEM, -ENOSPC; -ENOTSUP the backend has no such descriptor, or there is none (see "Input
 * and output").
 */
FIBERRT_API int fiber_cord_fd(void) FIBERRT_LINKNAME(fiber_cord_fd);

/**
 * Runs the cord: polls, runs its fibers until none is runnable, and hands their new operations to the kernel. If none
 * was runnable, it waits for one, at most duration_ns. Returns 0; or 1 if fibers were still runnable after about a
 * millisecond: then fiber_cord_fd is still readable, and the next call runs the rest. It cannot be nested.
 *
 * Switches: yes. While the main flow is cancelled it runs nothing, and fiber_cord_fd stays readable. Errors: -EINVAL
 * duration_ns < 0; -EDEADLK duration_ns is FIBER_FOREVER, and the wait could never end.
 */
FIBERRT_API int fiber_cord_run(int64_t duration_ns) FIBERRT_LINKNAME(fiber_cord_run);

/**
 * Returns the time of the next deadline, for loops with timers of their own: call fiber_cord_run by *out (in
 * fiber_now's time), or when fiber_cord_fd is readable. FIBER_FOREVER: there is no deadline; 0: there is something to
 * run now.
 *
 * Errors: -EINVAL out is NULL.
 */
FIBERRT_API int fiber_cord_next_deadline(int64_t *out) FIBERRT_LINKNAME(fiber_cord_next_deadline);

/* ------------------------------------------------------------------------------------------------------------------
 * The library
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: none.
 * --------------------------------------------------------------------------------------------------------------- */

/** Returns the version of the library that runs: major * 10000 + minor * 100 + patch. */
FIBERRT_API int fiber_version(void) FIBERRT_LINKNAME(fiber_version);

/**
 * Returns a constant sentence for a negative result of this library or a positive errno; "unknown error" for others.
 */
FIBERRT_API const char *fiber_strerror(int error) FIBERRT_LINKNAME(fiber_strerror);

/** Returns the time in nanoseconds, by the clock of all deadlines. */
FIBERRT_API int64_t fiber_now(void) FIBERRT_LINKNAME(fiber_now);

/* Bits of fiber_features. Bits that this header does not name may be set. */
#define FIBER_FEATURE_URING ((uint64_t)1) /* I/O by io_uring */
#define FIBER_FEATURE_EV ((uint64_t)2)    /* I/O by libev */
#define FIBER_FEATURE_SIM ((uint64_t)4)   /* simulated I/O and time */

/** Returns what the library that runs was built with: bits FIBER_FEATURE_*. */
FIBERRT_API uint64_t fiber_features(void) FIBERRT_LINKNAME(fiber_features);

/**
 * Returns the name of the backend that performs the I/O of the calling thread: "uring" (io_uring), "ev" (libev), "sim"
 * (the simulation), or "none". Before the thread's first operation it opens the backend that this would choose, and
 * closes it. "none" may be for want of a descriptor or of memory; the first operation returns that error. The string
 * lives for ever.
 *
 * The library chooses io_uring, and libev where the kernel refuses io_uring. The environment variable
 * FIBERRT_BACKEND=uring, =ev or =sim chooses instead (not in a program with other rights than its user's); an
 * unavailable one makes I/O return -ENOTSUP, an unknown one -EINVAL.
 */
FIBERRT_API const char *fiber_backend_name(void) FIBERRT_LINKNAME(fiber_backend_name);

/**
 * Returns a number below `count` that the simulation chooses, so the program's own choices belong to the run: the same
 * seed, or the same list of choices (docs/simulation.md), gives the same numbers. 0 is the ordinary alternative, which
 * a shrunk list leaves out. Use it for inputs, and to decide where other fibers run:
 *
 *     if (fiber_sim_pick(2, 8) == 1) fiber_reschedule();
 *
 * one_in: 0 chooses as often another number than 0 as the seed does everywhere; otherwise the number is not 0 once in
 * so many times, by chance.
 *
 * Where: a fiber, in a simulation. Switches: no.
 * Errors: -EINVAL `count` is 0; -ENOTSUP there is no simulation, or the calling thread is not its thread. Since: 0.1
 */
FIBERRT_API int64_t fiber_sim_pick(uint32_t count, uint32_t one_in) FIBERRT_LINKNAME(fiber_sim_pick);

/* ------------------------------------------------------------------------------------------------------------------
 * Forks
 *
 * fork() leaves the parent as it is. In the child, only the fiber that called fork() continues (docs/fork.md has the
 * rest):
 *   - Other fibers, the cords of other threads, and pools are gone: their handles are stale (-ESRCH), and the fibers'
 *     stacks lost.
 *   - The caller keeps its locks and its scopes. Mutexes held by other fibers become available, and the next lock
 *     returns -EOWNERDEAD; the scopes report lost children by -EOWNERDEAD. Read-write locks stay held.
 *   - When that fiber and the fibers started since have ended, except daemons, the process ends as by exit(0).
 *     After a fork by a main flow, it ends when main or the thread's function returns.
 * The child may only call exec or _exit after _Fork() or clone(), and after a fork inside a function that the library
 * calls while it polls or switches (hooks, apply), or in a turn of a hosted fiber. No signal handler that may interrupt
 * a call of this library may call fork().
 * --------------------------------------------------------------------------------------------------------------- */

/* Policies of fiber_set_fork_policy. */
#define FIBER_FORK_CONTINUE 0 /* the child continues, as "Forks" says */
#define FIBER_FORK_REFUSE 1   /* the child uses no fibers */

/**
 * Sets whether children that this process forks from now on, and their children, may use fibers. With FIBER_FORK_REFUSE
 * each call that may switch, makes a fiber, a cord or a pool, or needs a cord that does not exist, returns -EPERM in
 * the child, if the parent has ever had a cord.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL policy is neither of the two. Since: 0.1
 */
FIBERRT_API int fiber_set_fork_policy(int policy) FIBERRT_LINKNAME(fiber_set_fork_policy);

/* ------------------------------------------------------------------------------------------------------------------
 * Hooks
 *
 * Hooks let another runtime keep per fiber the things it keeps per thread, such as an interpreter's frame. A cord has
 * one set of hooks. They are called for fibers with a TAG: a pointer, and a kind from 1 to FIBER_TAG_KIND_MAX by which
 * several users of one cord tell their fibers apart. A switch between fibers without a tag calls none.
 *
 *     before_switch  the calling fiber will be left for another one; not called when it has ended
 *     after_switch   the other fiber is the calling fiber now; from is no tag if the fiber before has ended. Both
 *                    hooks run on the stack that is left
 *     start          on the fiber's own stack, before its function
 *     exit           on the fiber's own stack, at its end, after its keys' destructors
 *     destroy        the fiber is gone: its handle is stale when this returns. Called once for each fiber with a tag,
 *                    even if it never ran, or its thread exits, before its memory is reused
 *     before_poll    the thread will sleep: a poll has found nothing
 *     after_poll     the thread has slept. A result of -EINTR interrupts the cord's main flow, as fiber_interrupt with
 *                    NULL; otherwise return 0
 *
 * Each may be NULL. They run in a no-switch section; errno is kept. In destroy the fiber counts as detached; when a
 * thread exits, destroy runs when no fiber can be made there any more (-EPIPE). A turn of a hosted fiber is a switch
 * from and to a fiber without a tag.
 *
 * Defaults: Where: a fiber of its cord. Switches: no. Since: 0.1.
 * --------------------------------------------------------------------------------------------------------------- */

#define FIBER_TAG_KIND_MAX 255u /* the largest kind of a tag */

/* A tag, by which hooks know a fiber. */
typedef struct {
    void *pointer;
    unsigned kind; /* 0: there is no tag, and pointer is NULL */
} fiber_tag_t;

/* The hooks of a cord: "Hooks" says when each is called. */
typedef struct {
    void *data; /* the first argument of each */
    void (*before_switch)(void *data, fiber_tag_t from, fiber_tag_t to);
    void (*after_switch)(void *data, fiber_tag_t from, fiber_tag_t to);
    void (*start)(void *data, fiber_tag_t tag);
    void (*exit)(void *data, fiber_tag_t tag);
    void (*destroy)(void *data, fiber_t fiber, fiber_tag_t tag);
    void (*before_poll)(void *data);
    int (*after_poll)(void *data);
} fiber_hooks_t;

/**
 * Sets the hooks of the calling thread's cord, instead of the earlier ones; NULL removes them. The library copies the
 * hooks. size is sizeof(fiber_hooks_t) as the caller knows it: members beyond size count as NULL.
 *
 * Where: a fiber. Errors: -EINVAL size is 0 though hooks is not NULL, or ends within a member; -ENOTSUP a member that
 * this library does not know is not NULL.
 */
FIBERRT_API int fiber_hooks_set(const fiber_hooks_t *hooks, size_t size) FIBERRT_LINKNAME(fiber_hooks_set);

/**
 * Sets a fiber's tag; kind 0 removes it.
 *
 * Errors: -EINVAL kind is above FIBER_TAG_KIND_MAX, or 0 though pointer is not NULL; -EPERM it belongs to another cord;
 * -ESRCH it has ended.
 */
FIBERRT_API int fiber_tag_set(fiber_t fiber, fiber_tag_t tag) FIBERRT_LINKNAME(fiber_tag_set);

/** Returns a fiber's tag, in *out. Errors: -EINVAL out is NULL; -EPERM it belongs to another cord. */
FIBERRT_API int fiber_tag_get(fiber_t fiber, fiber_tag_t *out) FIBERRT_LINKNAME(fiber_tag_get);

/* ------------------------------------------------------------------------------------------------------------------
 * Hosted fibers
 *
 * A HOSTED FIBER has no stack: its frame lives in another language - a C++20 coroutine, a generator, a goroutine - and
 * its HOST is the code that runs that frame. For the cord it is a fiber like the others, but calls that say "Switches:
 * yes" return -EPERM in it. Instead the host leaves the frame and says what the fiber waits for by an operation record
 * (fiber_op_t); when the operation is done, the fiber has its next turn. Turns come in one of two ways.
 *
 * By a STEP: a function that the cord calls for each turn, on one stack for all hosted fibers of the cord. Its argument
 * is the result of the operation (0 in the first turn); its own result says how it left the frame. In a step the hosted
 * fiber is the calling fiber (fiber_self, fiber_key_get, fiber_mutex_unlock …). Steps must not block the thread, and
 * share errno, the floating-point control words and caught C++ exceptions. docs/hosted.md has an example and the
 * corners.
 *
 * By EXCHANGE, for a fiber made without a step: fiber_exchange hands out runnable ones in batches, and takes their next
 * operations.
 *
 * A fiber has one operation at a time. Its record, and the memory that the record points to, must stay in place until
 * it is done. A hosted fiber that is cancelled before its first turn still has that turn, with -ECANCELED, so that its
 * host can free its frame.
 *
 * Defaults: Where: a fiber. Switches: no. Since: 0.1.
 * --------------------------------------------------------------------------------------------------------------- */

/* Results of a step. */
#define FIBER_STEP_END 0   /* the fiber has ended; its result is that of fiber_hosted_end, otherwise NULL */
#define FIBER_STEP_AGAIN 1 /* another turn after all runnable fibers, as fiber_reschedule; its result is the next one */
#define FIBER_STEP_WAIT 2  /* it waits for an operation (fiber_op_start has returned 0). If there is none, the fiber has
                              another turn, with -EINVAL */
#define FIBER_STEP_YIELD 3 /* the next turn after a wakeup, as fiber_yield, whose result is the next one */

/* One turn of a hosted fiber: user is its pointer, result that of the operation. If a step returns a wrong value
 * (docs/hosted.md), the library ends the operation and the fiber, and its joiners get -EINVAL. */
typedef int (*fiber_step_t)(void *user, int64_t result);

/* Operations: `code` of fiber_op_t, with the members that each uses. Their results are those of the calls of the same
 * names; -ECANCELED, -EINTR and -ETIMEDOUT are about the hosted fiber. */
#define FIBER_OP_NONE 0        /* nothing */
#define FIBER_OP_RESCHEDULE 1  /* another turn after all runnable fibers */
#define FIBER_OP_YIELD 2       /* until a wakeup */
#define FIBER_OP_SLEEP 3       /* number: nanoseconds */
#define FIBER_OP_JOIN 4        /* target: a fiber. value is its result then */
#define FIBER_OP_END 5         /* ends the fiber, value is its result: for exchange. Never handed out as done */
#define FIBER_OP_READ 8        /* fd, address, length */
#define FIBER_OP_WRITE 9       /* fd, address, length */
#define FIBER_OP_RECV 10       /* fd, address, length, mode: its flags */
#define FIBER_OP_SEND 11       /* fd, address, length, mode: its flags */
#define FIBER_OP_ACCEPT 12     /* fd, address and address2 (NULL, or sockaddr and socklen_t), mode: flags of accept4 */
#define FIBER_OP_CONNECT 13    /* fd, address: sockaddr, length: its size */
#define FIBER_OP_POLL 14       /* fd, mode: events */
#define FIBER_OP_CLOSE 15      /* fd */
#define FIBER_OP_CHAN_SEND 16  /* target: a channel; address: the item */
#define FIBER_OP_CHAN_RECV 17  /* target: a channel; address: the memory to receive into */
#define FIBER_OP_MUTEX_LOCK 18 /* address. Ended early as fiber_mutex_lock_timeout is */
#define FIBER_OP_MUTEX_UNLOCK 19 /* address. For exchange */
#define FIBER_OP_SEM_WAIT 20   /* address; number: of permits */
#define FIBER_OP_EVENT_WAIT 21 /* address */
#define FIBER_OP_WG_WAIT 22    /* address */
#define FIBER_OP_RDLOCK 23     /* address: a read-write lock */
#define FIBER_OP_WRLOCK 24     /* address: a read-write lock */
#define FIBER_OP_CALL 25       /* function(address) on a fiber with its own stack, for all calls without a code;
                                  result is the function's result. A wait that ends early cancels that fiber,
                                  and waits for its end */

/* Bits of `flags` of fiber_op_t. */
#define FIBER_OP_TIMED 1u /* the wait ends with -ETIMEDOUT after timeout_ns nanoseconds */
#define FIBER_OP_REASON 2u /* FIBER_OP_YIELD tells why it waits: address is a text, "waits in Recv"; dumps and
                              fiber_info tell its first 63 bytes. target is fiber_info's wait_object, or 0. If target is a
                              fiber's id, only that fiber is to end the wait. The text must stay valid meanwhile */

/* An operation record: 400 bytes, of fixed layout. All zero bytes are a fresh one. The host touches no member while the
 * operation is under way. */
typedef struct fiber_op {
    uint32_t code;        /* FIBER_OP_* */
    uint32_t flags;       /* FIBER_OP_TIMED, FIBER_OP_REASON, or 0 */
    fiber_t fiber;        /* the hosted fiber that waits; in a step zero is the calling fiber */
    void *user;           /* the host's own */
    int64_t timeout_ns;   /* of FIBER_OP_TIMED */
    int64_t result;       /* when it is done */
    int32_t fd;
    int32_t mode;         /* flags of a transfer, events of a poll */
    void *address;
    void *address2;
    uint64_t length;
    int64_t number;       /* nanoseconds, permits */
    uint64_t target;      /* the id of a handle */
    void *value;
    int64_t (*function)(void *);
    uint64_t reserved[1]; /* zero; otherwise the operation is refused with -EINVAL */
    uint64_t internal[36]; /* the library's */
} fiber_op_t;

/* A hosted fiber that has a turn: what fiber_exchange hands out. */
typedef struct {
    fiber_t fiber;
    void *user;     /* of the fiber */
    fiber_op_t *op; /* that is done; NULL: a first turn, or a wakeup's */
    int64_t result; /* of the operation, or of the turn as a step has it */
} fiber_completion_t;

/**
 * Makes a hosted fiber on the calling thread's cord. With step NULL fiber_exchange hands it out. Its first turn comes
 * after fiber_wakeup or fiber_start. It must be joined or detached. Attributes (NULL: the defaults) set its name,
 * detached, daemon; the stack size of all steps, for the cord's first hosted fiber; and free_arg, which gets user if
 * the thread exits before the fiber has ended.
 *
 * Errors: -EINVAL out is NULL, or the attributes are of a task or of another cord; -ENOMEM; -EAGAIN as fiber_new, or
 * there is no stack for steps; -EPIPE the cord is being shut down.
 */
FIBERRT_API int fiber_hosted_new(fiber_t *out, const fiber_attr_t *attr, fiber_step_t step, void *user)
    FIBERRT_LINKNAME(fiber_hosted_new);

/**
 * Returns the user pointer of a hosted fiber, in *user.
 *
 * Where: a fiber of its cord. Errors: -EINVAL user is NULL, or it is not hosted; -EPERM it belongs to another cord.
 */
FIBERRT_API int fiber_hosted_user(fiber_t fiber, void **user) FIBERRT_LINKNAME(fiber_hosted_user);

/**
 * Ends a hosted fiber, whose joiners get result. It ends as by fiber_exit, but does not wait for its scopes' children,
 * and its keys' destructors run in a no-switch section. A fiber that is handed out has ended when this returns: its
 * host must not run it again. A step must return FIBER_STEP_END next, and the fiber ends then.
 *
 * Where: its step, or the flow that it is handed out to. Errors: -EINVAL it is not hosted; -EPERM it belongs to another
 * cord, or a hosted fiber is the calling fiber, except for the first such call in its own step, with no operation under
 * way; -EBUSY it is not handed out.
 */
FIBERRT_API int fiber_hosted_end(fiber_t fiber, void *result) FIBERRT_LINKNAME(fiber_hosted_end);

/**
 * Makes a hosted fiber that is handed out the calling fiber, as in a step, until fiber_hosted_leave, for calls about
 * it: keys, scopes, locks tried or unlocked, fiber_self. Its ambient values are in force. Meanwhile no call may wait.
 * It cannot be nested.
 *
 * Where: the flow that it is handed out to. Errors: -EINVAL it is not hosted; -EPERM it belongs to another cord, or in
 * a no-switch section, in a step (also its own), or while another is entered; -EBUSY it is not handed out.
 */
FIBERRT_API int fiber_hosted_enter(fiber_t fiber) FIBERRT_LINKNAME(fiber_hosted_enter);

/**
 * Ends the effect of fiber_hosted_enter.
 *
 * Where: as fiber_hosted_enter. Errors: -EINVAL no fiber is entered; -EPERM in a hook, or another function that the
 * library calls meanwhile.
 */
FIBERRT_API int fiber_hosted_leave(void) FIBERRT_LINKNAME(fiber_hosted_leave);

/**
 * Makes count operation records, all zero, outside of a collected heap. The caller frees *out with fiber_ops_destroy.
 *
 * Where: anywhere. Errors: -EINVAL out is NULL or count is 0; -ENOMEM.
 */
FIBERRT_API int fiber_ops_create(fiber_op_t **out, size_t count) FIBERRT_LINKNAME(fiber_ops_create);

/**
 * Frees records of fiber_ops_create, with no operation under way. NULL does nothing.
 *
 * Where: anywhere. Errors: none.
 */
FIBERRT_API int fiber_ops_destroy(fiber_op_t *ops) FIBERRT_LINKNAME(fiber_ops_destroy);

/**
 * Starts the operation of a hosted fiber. Returns 1 if it is done at once: op->result is set, and the fiber continues.
 * Returns 0 if the fiber waits: its next turn comes when the operation is done (a step must return FIBER_STEP_WAIT
 * now). An error means misuse, and nothing was done; a failure of the operation is its result.
 *
 * Where: in a step of the fiber; or, for one that is handed out, its cord. Errors: -EINVAL op is NULL, or its fiber is
 * not hosted; -EPERM it belongs to another cord, another fiber's step is running, another one is entered, its own step
 * has called fiber_hosted_end, or in a no-switch section or a hook; -EBUSY it waits, is runnable, or is entered
 * (fiber_hosted_enter).
 */
FIBERRT_API int fiber_op_start(fiber_op_t *op) FIBERRT_LINKNAME(fiber_op_start);

/**
 * Hands out hosted fibers that have a turn. First it starts op_count operations, in order; then it hands out up to most
 * fibers, in the order of their turns. The host runs each until its next operation. If none has a turn, the caller
 * waits for one, at most timeout_ns. Returns how many of out were filled, 0 when the time is over.
 *
 * An operation that cannot be started (see fiber_op_start) comes back in out with its error as the result and user
 * NULL. An error that ends the wait leaves the operations under way; after any other error no operation was started
 * (docs/hosted.md).
 *
 * Where: a fiber with a stack, one at a time on each cord. Switches: yes. Errors: -EINVAL a NULL pointer where there
 * must be none, a count below 0, most below 1, or timeout_ns < 0; -EBUSY another fiber of the cord waits in this call,
 * or was woken in it and has not continued yet.
 */
FIBERRT_API int fiber_exchange(fiber_op_t *const *ops, int op_count, fiber_completion_t *out, int most,
                               int64_t timeout_ns) FIBERRT_LINKNAME(fiber_exchange);

/* ------------------------------------------------------------------------------------------------------------------
 * Introspection
 *
 * Later releases add members at the end of these structures. Calls take size, their sizeof as the caller knows it, and
 * fill that many bytes, unknown members with zero.
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: -EINVAL out is NULL or size is 0.
 * --------------------------------------------------------------------------------------------------------------- */

/* The result of fiber_info. */
typedef struct {
    uint64_t id;                /* of the handle; unique in the process for ever */
    int32_t state;              /* FIBER_NEW … FIBER_DEAD */
    uint8_t cancelled;          /* 1: it is cancelled */
    uint8_t detached;           /* 1: no fiber can join it */
    uint8_t permit;             /* 1: a wakeup is pending */
    uint8_t main_flow;          /* 1: it is its thread's main flow */
    uint64_t stack_size;        /* bytes of address space; 0: it has no stack of the library's now */
    uint64_t stack_low;         /* the stack's lowest usable address; 0 without a stack */
    char name[FIBER_NAME_MAX];
    uint64_t cord;              /* the id of the cord's handle */
    uint64_t stack_high;        /* the end of the reserved bytes (fiber_attr_set_stack_reserve) or, without any, of the
                                   first frame; 0 without a stack */
    uint64_t parent_scope;      /* the id of the scope that it is a child of; 0: none */
    uint64_t parent;            /* the id of the fiber that opened this scope; 0: none */
    uint64_t stack_touched;     /* bytes of the stack that are in memory, from its top: the most that it has used, or an
                                 * earlier fiber on the same stack; 0: not known */
    uint8_t still;              /* 1: it did not run while the library looked at it. 0: the members from here to
                                 * `function` are not known */
    char wait[96];              /* why it waits, in fiber_dump's words; empty: it does not wait */
    int wait_fd;                /* the descriptor of the operation that it waits for; -1: none */
    uint64_t wait_object;       /* what it waits for: the id of a fiber, cord or scope, or the address of a primitive;
                                 * 0: none of these */
    uint64_t wait_fiber;        /* the id of the one fiber that can end the wait: the holder of the lock, the fiber
                                 * that it joins or has transferred to, the fiber that its host names; 0: none, or
                                 * not known */
    int64_t wait_deadline_ns;   /* by fiber_now(): when the wait ends at the latest, by itself or by a scope;
                                 * FIBER_FOREVER: it has no deadline, or this has passed. Of more than eight open scopes
                                 * the innermost eight count */
    uint64_t stack_used;        /* bytes of the stack in use; 0: it has none, or its thread sleeps or polls on it */
    uint64_t function;          /* the address of its function, or of the one that its function calls last, by a tail
                                 * call; 0: it has ended, is hosted or a main flow, or the library cannot follow its
                                 * stack */
    uint64_t created_at;        /* where it was created: the return address, in the first function that is not the
                                 * library's, of the call that did it; 0: not known (fiber_record_creation). This
                                 * member and the next do not depend on `still` */
    uint64_t created_by;        /* the id of the fiber that made this call; 0: no fiber did, or not known */
} fiber_info_t;

/**
 * Reads what the library knows of a fiber into *out. The fiber may belong to any cord, and may run meanwhile: the
 * library neither stops its thread nor waits for it. The state, the members about the wait, stack_used and function are
 * of one moment. `still` is 0 for a fiber that runs, or continues again and again while the library looks at it; for a
 * hosted fiber of another cord that is handed out; and, if the kernel has no membarrier(2) or process_vm_readv(2), for
 * every fiber of another cord. With a size that ends before parent_scope, the call takes some nanoseconds, otherwise
 * some microseconds, and the first such call of a process with threads some milliseconds. Only one thread looks at a
 * time.
 *
 * Errors: -EINVAL out is NULL or size is 0; -ESRCH the fiber ended meanwhile.
 */
FIBERRT_API int fiber_info(fiber_t fiber, fiber_info_t *out, size_t size) FIBERRT_LINKNAME(fiber_info);

/**
 * Stores the return addresses of a fiber's frames in frames, innermost first, at most max, as backtrace(3) does for the
 * caller. Returns how many. The fiber may belong to any cord. The library neither stops its thread nor waits for it,
 * and all frames are of one moment. backtrace_symbols(3) and addr2line(1) find the names.
 *
 *   - A fiber that has not run, has ended or is hosted has no frames: the result is 0.
 *   - If the library cannot follow the stack to its end, because a function has no unwind tables or the stack is
 *     overwritten, the last address is NULL.
 *   - The caller's own frames begin with the function that makes the call.
 *
 * Errors: -EINVAL frames is NULL, or max is below 1; -EBUSY it runs, and is not the caller; or it continued at each
 * look; or the kernel lacks the calls that a look at another cord needs (membarrier(2)).
 */
FIBERRT_API int fiber_backtrace(fiber_t fiber, void **frames, int max) FIBERRT_LINKNAME(fiber_backtrace);

/* A frame of interpreted code, of a function of Python for example. Each text is UTF-8 and ends with a NUL. A text
 * without room lacks its beginning, and begins with "..."; an empty one is not known. */
typedef struct {
    char function[112];
    char file[136];
    int32_t line;      /* from 1; 0: not known */
    uint32_t reserved; /* 0 */
} fiber_code_frame_t;

/* The function by which a fiber_frames_reader_t reads memory that may change or vanish meanwhile. It returns how many
 * bytes it has copied, or a negative error. */
typedef int64_t (*fiber_frames_copy_t)(void *to, const void *from, size_t bytes);

/* A function that reads the frames of a fiber with this tag, innermost first, into frames, and returns how many: at
 * most max. If there are more, or the next one cannot be read, its last frame has an empty `function`.
 *
 * The library calls it on any thread, at any time, and holds a lock meanwhile. The fiber does not run, unless it is the
 * caller; or it continues meanwhile, and the library drops the result. So memory that belongs to the fiber, or to the
 * interpreter, may change or vanish: read it only by `copy`. The function must not wait, allocate memory, take a lock,
 * or call this library. */
typedef int (*fiber_frames_reader_t)(fiber_tag_t tag, fiber_frames_copy_t copy, fiber_code_frame_t *frames, int max);

/**
 * Sets the reader for fibers whose tag has this kind, on all cords; NULL removes it. Then fiber_code_frames and the
 * dumps tell the frames that the interpreter has on these fibers. language names the interpreter's language in the
 * dumps: 1 to 15 letters a to z, which the call copies. When the call returns, no thread is in the earlier reader any
 * more.
 *
 * Errors: -EINVAL kind is 0 or above FIBER_TAG_KIND_MAX, or language is no such name.
 */
FIBERRT_API int fiber_frames_reader_set(unsigned kind, const char *language, fiber_frames_reader_t read)
    FIBERRT_LINKNAME(fiber_frames_reader_set);

/**
 * Stores the frames of interpreted code that a fiber has, innermost first, at most max, by the reader for its tag
 * (fiber_frames_reader_set). Returns how many. The fiber may belong to any cord. The library neither stops its thread
 * nor waits for it, and all frames are of one moment. A fiber that has no tag, or whose tag has no reader, has no
 * frames: 0.
 *
 * Errors: -EINVAL frames is NULL, or max is below 1; -EBUSY as for fiber_backtrace.
 */
FIBERRT_API int fiber_code_frames(fiber_t fiber, fiber_code_frame_t *frames, int max)
    FIBERRT_LINKNAME(fiber_code_frames);

/**
 * Calls visit for each fiber of the process, of all cords, until visit returns a value other than 0. Main flows, fibers
 * that have ended and wait to be joined, and the library's own fibers are among them. A fiber that is made or ends
 * meanwhile may be visited or not. The library holds no lock, so visit may make any call that the caller may make.
 * Returns the last result of visit, or 0 if there is no fiber.
 *
 * Errors: -EINVAL visit is NULL.
 */
FIBERRT_API int fiber_each(int (*visit)(fiber_t fiber, void *arg), void *arg) FIBERRT_LINKNAME(fiber_each);

/* The result of fiber_stats, counted since the cord was opened. */
typedef struct {
    uint64_t switches;        /* from one fiber to another */
    uint64_t instant_resumes; /* a fiber gave way and was itself the next */
    uint64_t polls;           /* looks for I/O and timers */
    uint64_t blocking_polls;  /* polls that put the thread to sleep */
    uint64_t ops;             /* operations given to the backend */
    uint64_t fibers;          /* now: the main flow, new, live, and ended but not joined */
    uint64_t stacks;          /* in use now */
    uint64_t stacks_free;     /* kept for reuse */
    uint64_t ops_in_flight;   /* given to the backend, not completed */
    uint64_t stacks_high_water; /* the most in use at once, of each size and kind, added up */
    uint64_t stacks_trimmed;  /* of stacks_free, those whose memory has gone back to the system */
    uint64_t stack_bytes;     /* of address space committed for stacks, used or not */
} fiber_stats_t;

/**
 * Reads the counters of the calling thread's cord into *out.
 *
 * Where: a fiber.
 */
FIBERRT_API int fiber_stats(fiber_stats_t *out, size_t size) FIBERRT_LINKNAME(fiber_stats);

/**
 * Reads the counters of a cord, of any thread, into *out. The cord runs on meanwhile: counters that change are read one
 * after the other, and `switches` may be off by some hundred.
 *
 * Errors: those of a handle; -EINVAL out is NULL or size is 0.
 */
FIBERRT_API int fiber_cord_stats(fiber_cord_t cord, fiber_stats_t *out, size_t size)
    FIBERRT_LINKNAME(fiber_cord_stats);

/* The result of fiber_pool_stats. */
typedef struct {
    uint64_t threads;       /* that work for the pool now: its workers, and threads bound to it */
    uint64_t workers;       /* threads that the pool has started */
    uint64_t idle;          /* of threads: those that have nothing to run */
    uint64_t tasks_waiting; /* submitted, not begun */
    uint64_t tasks_begun;   /* begun, not ended */
    uint64_t closing;       /* 1: fiber_pool_close has been called, and the pool takes no more tasks from outside */
} fiber_pool_stats_t;

/**
 * Reads the counters of a pool into *out. The pool runs on meanwhile, so they are of moments close to each other.
 *
 * Errors: those of a handle; -EINVAL out is NULL or size is 0.
 */
FIBERRT_API int fiber_pool_stats(fiber_pool_t pool, fiber_pool_stats_t *out, size_t size)
    FIBERRT_LINKNAME(fiber_pool_stats);

/**
 * Writes the state of the library to a descriptor, as text for people whose form may change: its version, backend,
 * cords, and every fiber with its name, state, wait, open scopes (innermost first) and stack. Fibers of other cords run
 * on meanwhile, so each line is true for its own moment. The text lacks the waits of fibers for which fiber_info sets
 * `still` to 0. The last lines name deadlocks: fibers that wait for each other, in a circle, and did not run while the
 * library looked at them.
 *
 * It blocks the thread until all is written, and returns -EPIPE without SIGPIPE. pthread_cancel does not interrupt it.
 * It calls no malloc and opens no cord: a debugger may call (int)fiberrt_fiber_dump(2). Without memory from the kernel
 * it finds no deadlocks, and says so.
 *
 * Where: anywhere, also in a no-switch section. Errors: those of write(2), after part of the text may have been
 * written. -EBADF fd is not open for writing.
 */
FIBERRT_API int fiber_dump(int fd) FIBERRT_LINKNAME(fiber_dump);

/* Flags of fiber_dump_as. */
#define FIBER_DUMP_FRAMES 1u  /* the frames of each fiber's stack, with the names of the functions */
#define FIBER_DUMP_GROUPED 2u /* fibers with equal states and equal stacks are one entry, the most frequent first */
#define FIBER_DUMP_JSON 4u    /* as one JSON object in UTF-8 and a newline, for programs: docs/debugging.md */

/**
 * Writes the state of the library to a descriptor as fiber_dump does, in the form that flags ask for. With
 * FIBER_DUMP_FRAMES, the frames of each fiber follow its line, innermost first, without those inside the library. With
 * FIBER_DUMP_GROUPED, the dump counts fibers: "9,812 fibers: waits for recv ← read_request ← serve". With flags 0 the
 * dump is fiber_dump's.
 *
 * The frames of one fiber are of one moment, of different fibers of different moments; the dump stops no thread. A
 * fiber that runs, and is not the caller, has none, unless fiber_dump_running_signal has been called. Names are those
 * in the symbol tables of the mapped files. The call takes memory from the kernel, none from malloc, reads
 * /proc/self/maps and these files, and otherwise behaves as fiber_dump.
 *
 * Where: anywhere, also in a no-switch section. Errors: -EINVAL flags has an unknown bit; -ENOMEM nothing was written;
 * those of write(2), after part of the text may have been written. -EBADF fd is not open for writing.
 */
FIBERRT_API int fiber_dump_as(int fd, unsigned flags) FIBERRT_LINKNAME(fiber_dump_as);

/**
 * Writes the figures of all cords, fibers and pools to a descriptor, as OpenMetrics text, the format of Prometheus and
 * other monitoring systems: counters of each cord, fibers by state, deadlocks, stacks and their memory, threads and
 * tasks of each pool. The labels have the ids of cords and pools, and the names of cords and fibers. The text's last
 * line marks its end; without it, the text is not complete. docs/top.md lists the metrics. Cords run on meanwhile: the
 * call neither stops nor asks them. It looks at each fiber that waits, which takes about a microsecond for each.
 *
 * It blocks the thread until all is written, and returns -EPIPE without SIGPIPE. It opens no cord.
 *
 * Where: anywhere, also in a no-switch section. Errors: those of write(2), after part of the text may have been
 * written; -ENOMEM.
 */
FIBERRT_API int fiber_metrics_write(int fd) FIBERRT_LINKNAME(fiber_metrics_write);

/* ------------------------------------------------------------------------------------------------------------------
 * Accounting
 *
 * While accounting is on, the library measures for each fiber how long it runs, is runnable without running, and waits;
 * and for each cord how long its fibers run, it polls and its thread sleeps. It is off at first, and costs nothing
 * then. docs/observing.md shows how to use it.
 *
 * All times are of a clock that runs on while the thread is not on a processor: the run time of a fiber contains the
 * time in which the kernel gave the processor to another thread. The clock is the processor's counter, if that runs
 * evenly on all processors, otherwise CLOCK_MONOTONIC; in a simulation it is the simulation's clock.
 *
 * Later releases add members at the end of these structures. Calls take size, their sizeof as the caller knows it, and
 * fill that many bytes, unknown members with zero.
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: -EINVAL out is NULL or size is 0; -ENODATA accounting is
 * off.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Turns accounting on, for all cords, also for those made later. All times begin at zero. Cords of other threads follow
 * at their next poll. A message wakes the cords that sleep; a fiber that keeps its thread delays the poll. The first
 * call takes a millisecond, to measure the rate of the processor's counter.
 *
 * FIBERRT_ACCOUNTING=1 in the environment turns accounting on before the first cord.
 *
 * In the child of a fork, accounting stays on, and all times begin at zero.
 *
 * Errors: -EALREADY it is on; -ENOMEM; -ENOTSUP in a simulation, on a thread that may have no cord.
 */
FIBERRT_API int fiber_accounting_start(void) FIBERRT_LINKNAME(fiber_accounting_start);

/**
 * Turns accounting off. The times measured are gone. Cords of other threads follow at their next poll.
 *
 * Errors: -EALREADY it is off; -ENOMEM; -ENOTSUP in a simulation, on a thread that may have no cord.
 */
FIBERRT_API int fiber_accounting_stop(void) FIBERRT_LINKNAME(fiber_accounting_stop);

/* Kinds of waits: the indices of fiber_times_t.wait_ns. */
#define FIBER_WAIT_TIME     0 /* sleeps */
#define FIBER_WAIT_IO       1 /* operations on descriptors, connections, child processes and signals */
#define FIBER_WAIT_LOCK     2 /* mutexes, semaphores, conditions, events, and the other primitives except channels */
#define FIBER_WAIT_CHANNEL  3 /* channels, and fiber_select */
#define FIBER_WAIT_FIBER    4 /* the end of another fiber or of a cord */
#define FIBER_WAIT_CHILDREN 5 /* the children of a scope */
#define FIBER_WAIT_WAKEUP   6 /* fiber_yield and fiber_transfer */
#define FIBER_WAIT_OTHER    7 /* pools, offloaded functions, hosted fibers; a hosted fiber that its host has */
#define FIBER_WAIT_KINDS    8

/* The times of a fiber, or of several added up. */
typedef struct {
    uint64_t fibers;                    /* how many fibers these are; a task of a pool counts as one */
    uint64_t turns;                     /* how often they got the thread */
    int64_t run_ns;                     /* how long they had it */
    int64_t runnable_ns;                /* how long they were runnable and did not run, or waited for a stack */
    int64_t wait_ns[FIBER_WAIT_KINDS];  /* how long they waited, by FIBER_WAIT_… */
} fiber_times_t;

/**
 * Reads the times of a fiber, since accounting was turned on or, if that was later, since the fiber was first
 * scheduled. The fiber may belong to any cord. The times include the present run or wait, up to now. A fiber that has
 * ended keeps its times until it is joined. When another fiber wakes it, the library notes the time at the waker's next
 * switch: what the waker runs until then counts as the woken fiber's wait, and not in `runnable_ns`.
 *
 * Errors: -EINVAL out is NULL or size is 0; -ENODATA accounting is off; -EAGAIN its cord has not polled since
 * accounting was turned on, or the fiber has waited since then and cannot be looked at (`still` of fiber_info); -ESRCH
 * the fiber ended meanwhile; -ENOMEM there was no memory for its times.
 */
FIBERRT_API int fiber_times(fiber_t fiber, fiber_times_t *out, size_t size) FIBERRT_LINKNAME(fiber_times);

/* How durations spread. Each member except `count` is too long by at most a sixteenth: the library counts durations in
 * ranges, and these are ends of ranges. */
typedef struct {
    uint64_t count;
    int64_t p50_ns; /* half of them are not longer */
    int64_t p90_ns;
    int64_t p99_ns;
    int64_t p999_ns;
    int64_t most_ns; /* the longest */
} fiber_spread_t;

/* The times of a cord. run_ns, poll_ns and sleep_ns add up to elapsed_ns. */
typedef struct {
    int64_t elapsed_ns;      /* since accounting began on the cord */
    int64_t run_ns;          /* in fibers */
    int64_t poll_ns;         /* in looks for messages, I/O and timers, and in ends of fibers */
    int64_t sleep_ns;        /* in the kernel, waiting for any of these; or in the foreign loop that runs the cord.
                              * While an io_uring sleeps, the kernel performs the operations that were given to it */
    fiber_spread_t slice;    /* how long a fiber has the thread, until it gives way or the cord polls */
    fiber_spread_t lag;      /* from the end of a poll to the beginning of the next: a completion may go unnoticed for
                              * so long */
    fiber_spread_t poll;     /* how long polls take, without sleeps */
} fiber_cord_times_t;

/**
 * Reads the times of a cord, of any thread, since accounting began on it.
 *
 * Errors: those of a handle; -ESRCH the cord has ended, and is not joined yet; -EINVAL out is NULL or size is 0;
 * -ENODATA accounting is off; -EAGAIN the cord has not polled since accounting was turned on.
 */
FIBERRT_API int fiber_cord_times(fiber_cord_t cord, fiber_cord_times_t *out, size_t size)
    FIBERRT_LINKNAME(fiber_cord_times);

/* What the fibers of one sum of fiber_times_each have in common. */
#define FIBER_BY_FUNCTION 0 /* their function; of a task: the task's; of a hosted fiber: its step */
#define FIBER_BY_NAME     1 /* their name: at their end, or now */
#define FIBER_BY_SCOPE    2 /* the scope that they are children of */

/* One sum of fiber_times_each. Of the members function, name and scope only the one asked for is set. */
typedef struct {
    fiber_times_t times;
    uint64_t function; /* the address; 0: fibers that ran before accounting was on, main flows, the library's own */
    uint64_t scope;    /* the id of the handle; 0: fibers that are no children */
    char name[FIBER_NAME_MAX];
    uint8_t others;    /* 1: fibers that have ended and for which a cord's table had no place */
} fiber_times_sum_t;

/**
 * Calls visit with the sums of the times of all fibers since accounting was turned on, also of those that have ended,
 * until visit returns a value other than 0. The sum with the longest run time comes first, that with `others` last. A
 * cord keeps the sums of the fibers that have ended in tables of some hundred places. When a table is full, one sum,
 * whose `others` is 1, takes the times of further fibers, and those of the children of scopes that are gone. During the
 * call, a fiber that ends may be missing, and so may a sum that becomes part of `others`. Returns the last result of
 * visit, or 0 if there is no sum. visit may make any call that the caller may make.
 *
 * Errors: -EINVAL visit is NULL, or by is unknown; -ENODATA accounting is off; -ENOMEM.
 */
FIBERRT_API int fiber_times_each(int by, int (*visit)(const fiber_times_sum_t *sum, void *arg), void *arg)
    FIBERRT_LINKNAME(fiber_times_each);

/* ------------------------------------------------------------------------------------------------------------------
 * Debugging
 *
 * docs/debugging.md shows how to use these, also in gdb.
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Reports overflows of fibers' stacks. With on not 0 the library installs a handler of SIGSEGV that writes the fiber's
 * name and stack size to standard error, and passes the signal on to the earlier disposition: the program still dies.
 * With on 0 the earlier disposition is restored. The handler sees an overflow that touches the guard
 * (fiber_attr_set_guard_size), not one of a main flow. It serves the calling thread, if that has a cord, and threads
 * whose cords are opened later; others must make this call.
 *
 * Errors: -EBUSY (on is 0) another handler has been installed after this one: nothing has changed; -ENOTSUP the signal
 * is not available (AddressSanitizer: handle_segv=2); -ENOMEM.
 */
FIBERRT_API int fiber_report_overflows(int on) FIBERRT_LINKNAME(fiber_report_overflows);

/**
 * Records for each new fiber where and by which fiber it was created, or, with on 0, no longer. fiber_info and the
 * dumps tell it. A record takes 24 bytes, and some microseconds when the fiber is created. With on 0, creating a fiber
 * costs what it did before the first call. Cords of other threads follow at their next poll. Fibers that exist already,
 * main flows and the fibers that run the tasks of a pool have no record.
 *
 * Errors: -ENOMEM there are no 400 MB of address space, or there is no memory.
 */
FIBERRT_API int fiber_record_creation(int on) FIBERRT_LINKNAME(fiber_record_creation);

/* A fiber that has kept its thread for too long, as the watchdog reports it. Later releases add members. */
typedef struct {
    fiber_t fiber;          /* the fiber that runs */
    fiber_cord_t cord;      /* and its cord */
    int64_t running_ns;     /* for how long at least */
    char fiber_name[FIBER_NAME_MAX];
    char cord_name[16];     /* as fiber_cord_attr_set_name has it, or empty */
    void *const *frames;    /* its backtrace, as by backtrace(3), from within the handler; valid until report returns */
    int frame_count;        /* 0: no backtrace */
} fiber_overrun_t;

/* The options of a watchdog. */
typedef struct {
    int64_t limit_ns;       /* for how long a fiber may keep its thread; at least FIBER_MSEC(1) */
    int signal;             /* by which a thread is asked for its backtrace; 0: no backtraces */
    void (*report)(void *data, const fiber_overrun_t *overrun); /* NULL: the watchdog writes to standard error */
    void *data;             /* the first argument of report; the caller's */
} fiber_watchdog_t;

/**
 * Starts the process's watchdog: a thread that reports each fiber that has kept its thread for limit_ns, once for each
 * such stretch, at most limit_ns / 4 late. A call that says "Switches: yes" ends the stretch when it waits, or when it
 * lets other fibers run, even if none is runnable. Time in a system call, or without a processor, counts. size is
 * sizeof(fiber_watchdog_t) as the caller knows it: members beyond size count as zero.
 *
 * The watchdog's thread, which has no cord, calls report; report must not stop the watchdog. The library sends signal
 * (SIGRTMIN + n, say) to the thread of each reported fiber; no other code may use it. System calls that the kernel does
 * not restart return EINTR (signal(7)). Start the watchdog before other threads (docs/debugging.md). The child of a
 * fork has no watchdog, and may start one.
 *
 * Errors: -EINVAL options is NULL, size is 0 or ends within a member, limit_ns is below a millisecond, or signal is
 * none that a thread can handle; -EBUSY there is a watchdog already, or the program has a handler for the signal;
 * -EAGAIN no thread can be made; -ENOMEM; -ENOTSUP in a simulation, or a member that this library does not know is not
 * zero.
 */
FIBERRT_API int fiber_watchdog_start(const fiber_watchdog_t *options, size_t size)
    FIBERRT_LINKNAME(fiber_watchdog_start);

/**
 * Stops the watchdog, and restores the signal's earlier disposition; a signal still pending never arrives. Blocks the
 * thread until a report under way has been made.
 *
 * Where: anywhere. Errors: -ESRCH there is none; -EDEADLK the watchdog's own thread makes the call; -EBUSY another
 * thread is stopping it, or another handler has been installed for the signal since: that handler stays, and all else
 * is done.
 */
FIBERRT_API int fiber_watchdog_stop(void) FIBERRT_LINKNAME(fiber_watchdog_stop);

/**
 * Starts the process's agent: a thread that answers fiberrt-top(1) at a unix socket. It tells of all cords and fibers,
 * also while all cords hang, and costs fibers nothing between two requests. path is the socket's file, or an existing
 * directory, in which the file is PID.sock. The environment variable FIBERRT_TOP starts the agent in the same way at
 * the process's first cord.
 *
 * Only processes with the effective user id of this one get answers, not even root: the file has the mode 0600, and the
 * agent asks the kernel for the user of each client. A client has a second for its request, and two for taking the
 * answer. The library removes the file when the agent stops and at exit(3); a later agent replaces a file that was left
 * over. The child of a fork has no agent, and may start one. docs/top.md lists the requests.
 *
 * Errors: -EINVAL path is NULL or empty; -EBUSY there is an agent already; -ENAMETOOLONG the file's absolute path has
 * more than 107 bytes; -EADDRINUSE another process listens there; -EEXIST path is a file of another kind, or another
 * user's; -EAGAIN no thread can be made; -ENOTSUP in a simulation; -ENOMEM; those of socket(2), bind(2) and eventfd(2).
 */
FIBERRT_API int fiber_agent_start(const char *path) FIBERRT_LINKNAME(fiber_agent_start);

/**
 * Stops the agent, and removes its file. An answer under way is cut off. Blocks the thread until the agent's thread has
 * ended.
 *
 * Errors: -ESRCH there is none; -EBUSY another thread is stopping it.
 */
FIBERRT_API int fiber_agent_stop(void) FIBERRT_LINKNAME(fiber_agent_stop);

/**
 * Makes a signal write a dump to fd, as fiber_dump_as(fd, flags) does; with signal 0, no signal does any more. A
 * handler wakes a thread of the library's, which has no cord, so it writes the dump even when all cords are stuck. For
 * example, fiber_dump_on_signal(SIGQUIT, 2, FIBER_DUMP_FRAMES | FIBER_DUMP_GROUPED) makes Ctrl-\ tell what the fibers
 * do, and the program goes on.
 *
 * The environment variable FIBERRT_DUMP_SIGNAL (QUIT, say, or a number, or RTMIN+1) asks for this example without a
 * change of the program. The library reads it before the first cord is opened. A later call waits until the dumps asked
 * for are written, and replaces the signal.
 *
 * fd stays the caller's, and must stay open. A descriptor that takes nothing for a second cuts the dump off. A signal
 * that comes during a dump leads to one more dump; several such signals are one. In the child of a fork no signal
 * writes a dump; the child may make this call.
 *
 * Errors: -EINVAL flags has an unknown bit, or signal is none that a thread can handle; -EBUSY the program has a
 * handler for the signal, or, for an earlier signal, has installed its own since: then no signal writes a dump; -EAGAIN
 * no thread can be made; -ENOMEM; -ENOTSUP in a simulation.
 */
FIBERRT_API int fiber_dump_on_signal(int signal, int fd, unsigned flags) FIBERRT_LINKNAME(fiber_dump_on_signal);

/**
 * Lets dumps tell the frames of fibers that run: they send this signal (SIGRTMIN + n, say) to the thread of each such
 * fiber, whose handler stores its backtrace. With 0, dumps tell no frames of fibers that run, as before the call. No
 * other code may use the signal. System calls that the kernel does not restart return EINTR (signal(7)).
 *
 * A dump waits a second in all for threads that do not answer, and at least ten milliseconds for each; it says which
 * have not answered. Make the call before there are other threads: only threads whose cords are opened later, and the
 * caller, get a stack for the handler and unblock the signal. Dumps do not ask the others. In the child of a fork,
 * dumps send no signal.
 *
 * Errors: -EINVAL signal is none that a thread can handle; -EBUSY the program has a handler for the signal, or, for an
 * earlier signal, has installed its own since: then dumps ask by none; -ENOMEM; -ENOTSUP in a simulation.
 */
FIBERRT_API int fiber_dump_running_signal(int signal) FIBERRT_LINKNAME(fiber_dump_running_signal);

/* ------------------------------------------------------------------------------------------------------------------
 * Tracing
 *
 * A trace is a file that shows when each fiber ran, waited and was runnable, why it waited, and which fiber woke it.
 * Perfetto reads it: docs/tracing.md. While there is no trace, these calls cost a few instructions, and all others
 * nothing.
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1.
 * --------------------------------------------------------------------------------------------------------------- */

/* The options of a trace. Zero bytes are the default of each member, except that path or fd must be set. */
typedef struct {
    const char *path;     /* the file, which is created, or emptied; %p in it becomes the number of the process, and %%
                           * a single %. NULL: fd is used */
    int fd;               /* a file, pipe or socket open for writing; the library uses a duplicate */
    uint32_t ring_events; /* for how many events each cord has memory, of 32 bytes each; rounded up to a power of two,
                           * from 64 to 16,777,216. 0: 65,536 */
} fiber_trace_t;

/* The figures of a trace. Later releases add members. */
typedef struct {
    uint64_t events;  /* written so far */
    uint64_t dropped; /* events that were lost, because the cord's memory for events was full, or it had none */
    uint64_t bytes;   /* written so far */
    int error;        /* the -E... of the write that has ended the trace; 0: none */
    int running;      /* 1: the trace is not stopped yet */
} fiber_trace_stats_t;

/**
 * Starts a trace of the process: of all cords, and of those that are opened later. The calling thread's cord is traced
 * at once, each other one from its next poll on. size is sizeof(fiber_trace_t) as the caller knows it: members beyond
 * size count as zero. If path is a FIFO without a reader, the call blocks the thread until there is one.
 *
 * Each cord notes its events in memory that only it fills, and never waits: if the memory is full, events are dropped,
 * and the trace shows how many and where. A thread of the library's writes the file. When a write fails, the trace
 * ends: the program runs on, and fiber_trace_stop returns the error. A pipe or a socket whose reader does not read
 * holds up that thread only. There is one trace at a time.
 *
 * The environment variable FIBERRT_TRACE, a path in the form of `path`, starts a trace before the first cord. exit()
 * completes a trace that is not stopped; after _exit() or a signal that ends the process, the last 160 ms may be
 * missing. In the child of a fork there is no trace. In a simulation the trace adds no thread, the time is the
 * simulation's, and the same seed makes the same bytes.
 *
 * Errors: -EINVAL options is NULL, size is 0 or ends within a member, or ring_events is out of range; -EBUSY there is a
 * trace already; -EBADF path is NULL and fd is not open; those of open(2); -ENAMETOOLONG; -EAGAIN no thread can be
 * made; -ENOMEM; -ENOTSUP a member that this library does not know is not zero, or in a simulation on any thread except
 * the first.
 */
FIBERRT_API int fiber_trace_start(const fiber_trace_t *options, size_t size) FIBERRT_LINKNAME(fiber_trace_start);

/**
 * Stops the trace, and completes the file. Fibers that run, wait or are runnable then have slices without an end.
 * Blocks the thread until all is written, at most two seconds if a reader does not read.
 *
 * Errors: -ESRCH there is no trace; the error of write(2) that has ended the trace early: -EPIPE (without SIGPIPE),
 * -ENOSPC, …; -ETIMEDOUT the reader did not read; -ENOTSUP in a simulation, on any thread except the first.
 */
FIBERRT_API int fiber_trace_stop(void) FIBERRT_LINKNAME(fiber_trace_stop);

/**
 * Reads the figures of the present trace, or of the last one, into *out. size is sizeof(fiber_trace_stats_t) as the
 * caller knows it: the call fills that many bytes, unknown members with zero.
 *
 * Errors: -EINVAL out is NULL or size is 0.
 */
FIBERRT_API int fiber_trace_stats(fiber_trace_stats_t *out, size_t size) FIBERRT_LINKNAME(fiber_trace_stats);

/**
 * Begins a slice of the calling fiber in the trace, which ends at fiber_trace_end. Slices may lie within each other,
 * and waits within them; at the fiber's end they all end. The library keeps the first 255 bytes of name; bytes that are
 * not UTF-8 become question marks. While there is no trace, the call does nothing, and does not look at name.
 *
 * Where: a fiber. Errors: -EINVAL name is NULL.
 */
FIBERRT_API int fiber_trace_begin(const char *name) FIBERRT_LINKNAME(fiber_trace_begin);

/**
 * Ends the slice that the calling fiber began last and has not ended yet. If none is open, nothing happens.
 *
 * Where: a fiber. Errors: none.
 */
FIBERRT_API int fiber_trace_end(void) FIBERRT_LINKNAME(fiber_trace_end);

/**
 * Notes the value that a counter of the program has from now on. Counters of the same name are one counter, on all
 * cords. The library keeps name as fiber_trace_begin does.
 *
 * Where: a fiber. Errors: -EINVAL name is NULL.
 */
FIBERRT_API int fiber_trace_counter(const char *name, int64_t value) FIBERRT_LINKNAME(fiber_trace_counter);

/* ------------------------------------------------------------------------------------------------------------------
 * Unmodified libraries
 *
 * A library that calls the C library's blocking functions (read, poll, connect, sleep, …) blocks its thread. Once the
 * program has adopted the library, such a call suspends only the calling fiber, and the thread runs the other fibers:
 * after fiber_posix_adopt("libpq.so", 0), PQexec suspends the fiber that calls it, and not the thread.
 *
 * Only the calls that an adopted library itself makes change, and only if the caller is a fiber that may wait
 * (fiber_here). Every other caller gets the C library's function. docs/guide/libraries.md shows how to use this, and
 * docs/posix.md lists the functions.
 *   - A call tries first. If the descriptor is not ready, the fiber waits until it is, and the call tries again.
 *     Results, errno, partial transfers, O_NONBLOCK, SO_RCVTIMEO and SO_SNDTIMEO are as with the kernel's calls.
 *   - A cancel, or the deadline of a scope, ends a wait with ECANCELED or ETIMEDOUT in errno. If the wait was for a
 *     connection, libfiberrt shuts the connection down: a library that kept the connection would take the late answer
 *     to this request for the answer to the next one. poll and select report the end of the connection instead of the
 *     error. Each later receive by adopted code fails with ECONNRESET, whichever fiber or thread makes it.
 *   - fiber_interrupt ends one wait with EINTR. Libraries retry.
 *   - close ends the waits of the thread's other fibers on the descriptor. It waits for no other thread.
 *   - Calls in a signal handler that an adopted library has set block the thread.
 *   - Waits for mutexes, conditions, semaphores, barriers and ends of threads suspend only the fiber, too. Fibers,
 *     threads and code that is not adopted may share these objects. No cancel, interrupt or deadline of a scope ends
 *     such a wait, because the callers of these functions expect no such error.
 *
 * Defaults: Where: anywhere. Switches: no. Since: 0.1.
 * --------------------------------------------------------------------------------------------------------------- */

/* Flags of fiber_posix_adopt. */
#define FIBER_POSIX_LATER 1u    /* adopts also the libraries of that name that are loaded later */
#define FIBER_POSIX_NO_LOCKS 2u /* locks, conditions, semaphores, barriers and joins still block the thread */

/**
 * Adopts a loaded library: from now on its blocking calls suspend only the calling fiber, on every thread. library is a
 * file name: "libpq.so" stands for libpq.so.5, and for libpq-1a2b3c.so.5, as Python wheels name their copy. A name with
 * a slash is the whole path of the loaded file. Returns the number of functions that were replaced.
 *
 * NULL adopts the program and all its libraries, except the C library, libraries that define malloc, the runtimes of
 * sanitizers, and each file that contains libfiberrt (so also a program that is linked with libfiberrt.a). Adopted as
 * with FIBER_POSIX_NO_LOCKS are then a program that itself defines malloc, and the file that defines PyEval_SaveThread,
 * Python's interpreter.
 *
 * A pointer to a function, in the library's data or in its table of calls, is replaced only while it has the value that
 * the dynamic linker stored: a pointer that the program or another tool has changed stays as it is. A library that is
 * adopted already keeps the FIBER_POSIX_NO_LOCKS of its first adoption, or its lack, until it is released. After an
 * error, all is as before the call.
 *
 * With FIBER_POSIX_LATER in flags, a library of this name that the program loads later by dlopen is adopted before
 * dlopen returns, and after its constructors, which still block. If no such library is loaded yet, the result is 0.
 * The caller of dlopen must be the program, a library that is loaded now, or a library that such a dlopen loaded later:
 * a library that the C library loads by itself is not noticed. A library in another namespace (dlmopen) is not adopted.
 * If several calls of fiber_posix_adopt with FIBER_POSIX_LATER and of fiber_posix_release fit a library that is loaded
 * later, the last one decides, with its flags.
 *
 * Errors: -EINVAL library is the empty string, or a flag is unknown; -ENOENT no such library is loaded, or it contains
 * libfiberrt; -ENOMEM; -EACCES, -EPERM the system does not let the library's table of functions be changed; -ENOTSUP
 * the program is static.
 */
FIBERRT_API int fiber_posix_adopt(const char *library, unsigned flags) FIBERRT_LINKNAME(fiber_posix_adopt);

/**
 * Undoes fiber_posix_adopt for the same library; NULL releases the program and all its libraries. A call in progress
 * continues to wait as a fiber. Returns the number of functions that were restored.
 *
 * Also ends FIBER_POSIX_LATER for that name; NULL ends it for all names. If FIBER_POSIX_LATER of another call fits the
 * library, for example of fiber_posix_adopt(NULL, FIBER_POSIX_LATER), the library still stays released, also if the
 * program loads it later, until a call of fiber_posix_adopt for it, or for NULL, adopts it again.
 *
 * Errors: -EINVAL library is the empty string; -ENOENT no such library is adopted, or would be when it is loaded;
 * -EACCES, -EPERM, -ENOTSUP as fiber_posix_adopt; -ENOMEM.
 */
FIBERRT_API int fiber_posix_release(const char *library) FIBERRT_LINKNAME(fiber_posix_release);

/**
 * Calls visit for each replaced function of each adopted library, until visit returns a value other than 0. library is
 * the path of the file. Both texts stay valid. Returns the last result of visit.
 *
 * Errors: -EINVAL visit is NULL.
 */
FIBERRT_API int fiber_posix_each(int (*visit)(const char *library, const char *function, void *arg), void *arg)
    FIBERRT_LINKNAME(fiber_posix_each);

#ifdef __cplusplus
}
#endif
#endif
