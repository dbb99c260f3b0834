/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fiberrt.h - fibers for C: functions on their own stacks that wait without blocking their thread.
 *
 * A FIBER is a function on a stack of its own. It gives its thread away only inside the calls of this header that say
 * "Switches: yes". A CORD is a thread's world: its run queue, its timers, its backend (what performs I/O). Each thread
 * that uses fibers has one cord; it is opened by the first call that needs it, or made with its thread by
 * fiber_cord_start, and ends with the thread. The code that runs on the thread's own stack is the cord's MAIN FLOW, a
 * fiber like the others: it may yield, sleep, join, be woken. A fiber never changes its thread.
 *
 * When a thread exits with live fibers, their operations are ended, and they never run again: what they hold on their
 * stacks is lost, their handles are stale, and fibers of other cords that wait to join them get -EOWNERDEAD.
 *
 * Results. Functions return int, or int64_t for counts: zero or more is success, less than zero is -E... from
 * <errno.h>. Functions never set errno. Every call that takes a handle can return
 *   -EINVAL  the handle is zero, of another type, or was never given out;
 *   -ESRCH   what it named is gone; this stays so for ever, handles are not reused.
 * Handles work from every thread. What is asked of a fiber of another cord is sent there: 0 means that it was sent, and
 * its cord does it at its next look at its messages, a bounded number of switches later or at once if it sleeps; if the
 * fiber ends first, that is no error. What one thread sends to one fiber arrives in the order: wakeup, cancel,
 * interrupt, detach, where several meet on the way.
 * Every call that says "Switches: yes" can return, before it has done anything,
 *   -EPERM     it was made inside a no-switch section (fiber_noswitch_enter);
 *   -ECANCELED the calling fiber is cancelled;
 *   -EINTR     the calling fiber was interrupted (fiber_interrupt), once;
 *   -ETIMEDOUT the deadline of a scope of the calling fiber has fired (-ECANCELED too if such a scope was cancelled);
 * and the last three again when that happens during its wait. The order is: completion, then cancel, then interrupt,
 * then timeout. These three speak of the caller only, never of the fiber or the peer it waits for. (A connection's own
 * ETIMEDOUT is passed on as the kernel gave it; fiber_scope_close tells them apart.) A call that they refuse does not
 * wait. A fiber that makes one such call after the other gives the others a turn now and then, after a few hundred
 * calls at most: so `while (!done) fiber_yield();` in a cancelled fiber keeps its thread busy, and ends when another
 * fiber sets done. Look at results, and end the loop.
 * Each call that needs the thread's cord ("Where: a fiber") can return -ENOMEM if none can be opened, and in a
 * simulation (FIBERRT_BACKEND=sim, docs/simulation.md) -ENOTSUP on any thread but the first. A wait
 * on the main flow that can certainly never end (one cord, no other thread ever made, nothing runnable, no
 * timer, no operation) returns -EDEADLK.
 *
 * Time is int64_t nanoseconds of CLOCK_MONOTONIC, or of a simulation's own clock. A negative duration is -EINVAL, 0
 * tries once, FIBER_FOREVER waits. Deadlines never come early, and come in their order. An idle thread notices them
 * late by what the kernel takes to wake it (its timers' slack: 50 us by default, prctl PR_SET_TIMERSLACK). Beyond that,
 * where deadlines lie close together, they are noticed several at a time: a thread that has woken for one may let those
 * of the next millisecond wait for its end, each for at most an eighth of its duration, and thus at most 1 ms. One that
 * comes alone does not wait.
 *
 * What is per fiber: the registers, the floating-point control words, errno, C++ exceptions in flight, keys, scopes.
 * What is not: thread_local variables, the signal mask, the current directory. Signal handlers run on whichever stack
 * is current; none of these functions may be called from one. pthread_exit is forbidden inside a fiber other than the
 * main flow. pthread_cancel is forbidden of a thread that may be inside such a fiber or in one of these calls, which it
 * would leave half done, but for those that say otherwise: fiber_cancel of the thread's main flow ends a wait.
 * Returning from main, or exit(), ends the process. No fiber runs again, unless a function that exit() calls (atexit, a
 * destructor) itself waits: it may spawn fibers and join them. fork() may be called by any fiber: see "Forks".
 *
 * "Where", of a function, means: "anywhere" - any thread, with or without a cord; "a fiber" - any fiber or main flow
 * (the call opens the thread's cord if it has none).
 */
#ifndef FIBERRT_H
#define FIBERRT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The release of this header; fiber_version tells that of the library that runs. */
#define FIBERRT_VERSION_MAJOR 0
#define FIBERRT_VERSION_MINOR 1
#define FIBERRT_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* Linked programs reach each function by its linker name, fiberrt_ + the full name, so that a program which happens to
 * export a function of the plain name is not called in its stead. The shared library exports the plain names too, for
 * dlsym. */
#define FIBERRT_LINKNAME(name) __asm__("fiberrt_" #name)
#define FIBERRT_API __attribute__((visibility("default")))

/* Marks functions whose result must not be dropped: only the result tells that the caller does not hold the lock, that
 * a holder has died (-EOWNERDEAD), or that a wait ended early. The compiler warns where a program drops it. To switch
 * these warnings off, define FIBERRT_CHECK_RESULT as nothing before the header is included. */
#ifndef FIBERRT_CHECK_RESULT
#define FIBERRT_CHECK_RESULT __attribute__((warn_unused_result))
#endif

/* Handles. Plain values, copied freely; zero is none. Only the library makes them. */
typedef struct { uint64_t id; } fiber_t;       /* a fiber */
typedef struct { uint64_t id; } fiber_cord_t;  /* a cord */
typedef struct { uint64_t id; } fiber_scope_t; /* a scope: a deadline around the calls of one fiber, and its children */
typedef struct { uint64_t id; } fiber_key_t;   /* a key of fiber-local values */
typedef struct { uint64_t id; } fiber_chan_t;  /* a channel */
typedef struct { uint64_t id; } fiber_pool_t;  /* a pool: threads that work off tasks */

typedef struct fiber_attr fiber_attr_t;           /* attributes of a fiber to be made */
typedef struct fiber_cord_attr fiber_cord_attr_t; /* attributes of a cord to be started */
typedef struct fiber_pool_attr fiber_pool_attr_t; /* attributes of a pool to be made */
typedef struct fiber_process_attr fiber_process_attr_t; /* attributes of a process to be spawned */

/* The result of a fiber that was cancelled before it ever ran. */
#define FIBER_CANCELED ((void *)(intptr_t)-1)

/* Durations. The multiplication is not checked. */
#define FIBER_FOREVER INT64_MAX
#define FIBER_USEC(n) ((int64_t)(n) * 1000)
#define FIBER_MSEC(n) ((int64_t)(n) * 1000000)
#define FIBER_SEC(n) ((int64_t)(n) * 1000000000)

/* The smallest and the largest stack size that fiber_attr_set_stack_size takes, and the size without it. */
#define FIBER_STACK_MIN ((size_t)16384)
#define FIBER_STACK_MAX ((size_t)1 << 30)
#define FIBER_STACK_DEFAULT ((size_t)262144)

/* What fiber_attr_set_guard takes. */
#define FIBER_GUARD_REQUIRE 0 /* a guard, or no stack */
#define FIBER_GUARD_PREFER 1  /* a guard as long as the system has room for guards, then none */
#define FIBER_GUARD_NONE 2    /* no guard is asked for */

/* The size of guards without fiber_attr_set_guard_size, and the largest size that it takes. */
#define FIBER_GUARD_SIZE_DEFAULT ((size_t)65536)
#define FIBER_GUARD_SIZE_MAX ((size_t)16777216)

/* Bytes of a fiber's name that are kept, the terminating zero included. */
#define FIBER_NAME_MAX 32

/* ------------------------------------------------------------------------------------------------------------------
 * The library
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * The version of the library that runs: major * 10000 + minor * 100 + patch.
 *
 * Where: anywhere. Switches: no. Errors: none. Since: 0.1
 */
FIBERRT_API int fiber_version(void) FIBERRT_LINKNAME(fiber_version);

/**
 * A sentence for a result of this library: the negative number that a call returned, or the positive errno.
 * The text is constant and is not to be freed. An unknown number gives "unknown error".
 *
 * Where: anywhere. Switches: no. Errors: none. Since: 0.1
 */
FIBERRT_API const char *fiber_strerror(int error) FIBERRT_LINKNAME(fiber_strerror);

/**
 * The time in nanoseconds of the clock that every deadline of the library is measured by.
 *
 * Where: anywhere. Switches: no. Errors: none. Since: 0.1
 */
FIBERRT_API int64_t fiber_now(void) FIBERRT_LINKNAME(fiber_now);

/* ------------------------------------------------------------------------------------------------------------------
 * Forks
 *
 * fork() leaves the parent as it is. In the child goes on who has called it, and nobody else: of all fibers, main flows
 * and threads it is the only one. Everything below speaks of the child.
 *  - Handles of other fibers, of other threads' cords and of pools are stale (-ESRCH), those of the caller, of its
 *    cord, its open scopes, of keys and of channels are not. What others had on their stacks is lost, and may be
 *    overwritten; their destructors and those of their keys do not run, nor is the free_arg called of fibers and tasks
 *    that had not begun. What other threads' cords had taken of memory is not given back.
 *  - What others had locked is left to the next, which gets it with -EOWNERDEAD; read-write locks tell nobody and stay
 *    held, and of one that a lost thread held for writing a thread made later may be taken for the holder, as the C
 *    library gives it the same pthread_self. What the caller holds stays its own. Nobody waits anywhere any more.
 *    Channels have their items, semaphores and wait groups their counts. In memory that parent and child share
 *    (MAP_SHARED) there must be no locks and nothing else to wait for: the child changes what the caller has locked.
 *  - The caller's scopes stay open, with their deadlines. Children that had not ended are lost: each is reported by
 *    fiber_scope_next with -EOWNERDEAD, which also is the failure that fiber_scope_close tells, if there was none
 *    before. They are not waited for, nobody is cancelled for their sake, and the scope may have new children.
 *  - No operation is under way, and the library has no descriptor of the parent's: rings and event loops are made anew
 *    when they are needed. But what calls that were under way in other threads had opened for themselves, such as the
 *    pipes of a fiber_copy, the ends of FIFOs, and descriptors of processes and signals, stays open until exec.
 *    fiber_cord_fd gives another descriptor. A cord that was left to a foreign loop, a thread that
 *    was bound to a pool, and a task of a pool belong to them no more; the caller may be any of these.
 *  - When the function of a fiber that has forked returns, and the others have ended that it has started since, but for
 *    daemons, the process ends, as by exit(0): there is no main flow to return to. In the function of a thread, or of
 *    fiber_cord_start, it ends with that thread.
 * Between threads the usual holds: what another thread was about to change in memory that it shares with the caller may
 * be half done. A fork in the midst of a call of this library's by another thread does no harm to the library. It hears
 * of forks from the first call on that waits, locks a mutex or needs a cord, on whatever thread: what threads have done
 * before to counts and events, such as fiber_sem_post and fiber_event_set, is to be over when another one forks. If the
 * parent had several threads the child can tell by a mutex whose holder is lost only where addresses have no more than
 * 48 bits: where Linux gives others to everybody, as 5.18 to 6.5 do on RISC-V with Sv57, it must not use mutexes.
 *
 * In a simulation the child goes on with the next choices, on a clock of its own, and writes no trace.
 *
 * After _Fork() or clone(), which tell nobody, and after a fork inside a function that the library calls while it polls
 * or switches, in any hook or apply of an ambient key, or in a turn of a hosted fiber (a step, or between
 * fiber_hosted_enter and fiber_hosted_leave), the child may only call exec or _exit. A handler of signals that may have
 * come in the midst of a call of this library's must not call fork(), which takes its locks and may wait for ever;
 * _Fork() may be called. vfork and posix_spawn do not concern the library.
 * --------------------------------------------------------------------------------------------------------------- */

/* What fiber_set_fork_policy takes. */
#define FIBER_FORK_CONTINUE 0 /* the child goes on, as "Forks" says */
#define FIBER_FORK_REFUSE 1   /* the child is to use no fibers */

/**
 * Says what becomes of the library in children that this process forks from now on, and in theirs. With
 * FIBER_FORK_REFUSE each call that may switch, makes a fiber, a cord or a pool, or needs a cord that there is not,
 * returns -EPERM in the child, if the parent has ever had a cord. It may exec, exit, and return from its functions.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL policy is neither of the two. Since: 0.1
 */
FIBERRT_API int fiber_set_fork_policy(int policy) FIBERRT_LINKNAME(fiber_set_fork_policy);

/* ------------------------------------------------------------------------------------------------------------------
 * Attributes
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Makes an attribute object with the defaults: FIBER_STACK_DEFAULT, FIBER_GUARD_REQUIRE, FIBER_GUARD_SIZE_DEFAULT, no
 * name, joinable. The caller owns *out and ends it with fiber_attr_destroy; it may be used for any number of fibers,
 * and destroyed once fiber_new has returned.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL out is NULL; -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_attr_create(fiber_attr_t **out) FIBERRT_LINKNAME(fiber_attr_create);

/**
 * Frees an attribute object. NULL is allowed and does nothing.
 *
 * Where: anywhere. Switches: no. Errors: none (returns 0). Since: 0.1
 */
FIBERRT_API int fiber_attr_destroy(fiber_attr_t *attr) FIBERRT_LINKNAME(fiber_attr_destroy);

/**
 * Sets the size of the stack in bytes, rounded up to a power of two, and to a page where pages are larger. Up to 1 KiB
 * at the high end is left unused; the guard lies below the stack and comes in addition (fiber_attr_set_guard_size). The
 * size is address space: memory is taken only as the fiber touches it, and goes back to the system when the stack has
 * been idle for some seconds and is one of many; where overcommit is off (vm.overcommit_memory = 2), the stack and its
 * guard count against the limit from the first use on. The tops of stacks of 2 MiB or more are so far apart that each
 * needs a page of the kernel's page table, too: 4 KiB of memory, as much as a parked fiber's stack.
 *
 * Where: anywhere. Switches: no.
 * Errors: -EINVAL attr is NULL, or bytes is below FIBER_STACK_MIN or above FIBER_STACK_MAX. Since: 0.1
 */
FIBERRT_API int fiber_attr_set_stack_size(fiber_attr_t *attr, size_t bytes)
    FIBERRT_LINKNAME(fiber_attr_set_stack_size);

/**
 * Says whether the stack has a guard: a region below it that cannot be touched, so that an overflow of the stack raises
 * SIGSEGV instead of overwriting memory. guard is
 *   FIBER_GUARD_REQUIRE (the default): the fiber gets a stack with a guard, or none at all, which fiber_start and
 *     fiber_join report as -EAGAIN;
 *   FIBER_GUARD_PREFER: the same as long as the system has room for guards, then a stack without one;
 *   FIBER_GUARD_NONE: no guard is made for it. It may still be given a stack that has one.
 * Where the kernel has light guards (Linux 6.13), memory alone limits their number. Elsewhere each costs two of the
 * process's mappings. By default vm.max_map_count allows 65,530: some 30,000 guarded fibers. The last sixteenth
 * is left to the rest of the program.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL, or guard is none of the three. Since: 0.1
 */
FIBERRT_API int fiber_attr_set_guard(fiber_attr_t *attr, int guard) FIBERRT_LINKNAME(fiber_attr_set_guard);

/**
 * Sets the size of the guard below the stack in bytes, rounded up to 64 KiB, 1 MiB or 16 MiB; a guard that would be as
 * large as its stack is twice as large. A function whose frame is larger than the guard may step over it without
 * touching it, and write into the stack of another fiber. Functions compiled with -fstack-clash-protection touch each
 * page of a frame in turn (on AArch64 each 64 KiB): no guard is too small for them. The default, 64 KiB, is for code
 * that is compiled so, and for smaller frames; for libraries that put large arrays on the stack, set more. A light
 * guard costs one byte of page table for each 512 of its size, whichever way the stack is used; see
 * fiber_attr_set_guard for others. This does not change whether there is a guard.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL, bytes is 0 or above FIBER_GUARD_SIZE_MAX. Since: 0.1
 */
FIBERRT_API int fiber_attr_set_guard_size(fiber_attr_t *attr, size_t bytes)
    FIBERRT_LINKNAME(fiber_attr_set_guard_size);

/**
 * Sets the name that the fiber will have, as fiber_set_name does. The text is copied.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr or name is NULL. Since: 0.1
 */
FIBERRT_API int fiber_attr_set_name(fiber_attr_t *attr, const char *name) FIBERRT_LINKNAME(fiber_attr_set_name);

/**
 * Says whether the fiber is made detached (detached is not 0): nobody joins it, its handle goes stale when it ends.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL. Since: 0.1
 */
FIBERRT_API int fiber_attr_set_detached(fiber_attr_t *attr, int detached) FIBERRT_LINKNAME(fiber_attr_set_detached);

/**
 * Says whether the fiber is a daemon (daemon is not 0): a cord that was started ends without waiting for it. It is then
 * let go of wherever it is; if in a call that has been completed and has not returned yet, what that has brought goes
 * with it: the bytes that were read, or the end of the fiber that was joined, which nobody can join again.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL. Since: 0.1
 */
FIBERRT_API int fiber_attr_set_daemon(fiber_attr_t *attr, int daemon) FIBERRT_LINKNAME(fiber_attr_set_daemon);

/**
 * Sets on which cord the fiber is made. By default it is the caller's.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL; those of a handle. Since: 0.1
 */
FIBERRT_API int fiber_attr_set_cord(fiber_attr_t *attr, fiber_cord_t cord) FIBERRT_LINKNAME(fiber_attr_set_cord);

/**
 * Sets what becomes of the argument of a fiber that never runs, whether it is cancelled before, there is no stack for
 * it, or its thread exits: free_arg(arg) is called once in place of fn(arg), by the thread that finds it out, on
 * whichever stack that is on, in a no-switch section. It has returned before anybody is told of the end, so that who
 * waits for that may free what the argument refers to. (Not so of a thread's exit, of which others may hear before.) A
 * fork() by a fiber may call it as well, from a handler of pthread_atfork that prepares it: it must not take a lock
 * that a handler of the program's own holds by then. A fiber that has begun sees to its argument by itself; if the call
 * that was to make it returns an error, the argument is still the caller's. NULL, the default: nothing is called.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL. Since: 0.1
 */
FIBERRT_API int fiber_attr_set_free_arg(fiber_attr_t *attr, void (*free_arg)(void *))
    FIBERRT_LINKNAME(fiber_attr_set_free_arg);

/**
 * Makes it the attributes of a task of a pool: for fiber_scope_spawn_attr alone, which then makes a child that any of
 * the pool's threads may run. Of the other attributes only those of a detached fiber and of its argument count; the
 * stack is as the pool's attributes say.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL; those of a handle. Since: 0.1
 */
FIBERRT_API int fiber_attr_set_pool(fiber_attr_t *attr, fiber_pool_t pool) FIBERRT_LINKNAME(fiber_attr_set_pool);

/* ------------------------------------------------------------------------------------------------------------------
 * Life
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Creates a fiber on the calling thread's cord, or on that of the attributes, that will run fn(arg). It does not run
 * until fiber_start, fiber_wakeup or fiber_transfer; until then it has no stack. attr NULL means the defaults. What arg
 * points to stays the caller's (but see fiber_attr_set_free_arg). A joinable fiber must be joined or detached, else it
 * keeps its slot for the life of the cord. The fiber begins with the default floating-point control words (rounding,
 * exception masks), unlike a new thread, which inherits those of its creator.
 *
 * Where: a fiber. Switches: no.
 * Errors: -EINVAL out or fn is NULL, or the attributes are a task's; -ENOMEM; -EAGAIN there are 16,777,216 fibers
 * already; -EPIPE the cord is being shut down; -ESRCH the cord of the attributes has ended. Since: 0.1
 */
FIBERRT_API int fiber_new(fiber_t *out, const fiber_attr_t *attr, void *(*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_new);

/**
 * fiber_new with the default attributes, then fiber_wakeup: the fiber runs when its turn in the run queue comes. With
 * out NULL it is detached.
 *
 * Where: a fiber. Switches: no. Errors: -EINVAL fn is NULL; -ENOMEM, -EAGAIN, -EPIPE as fiber_new. Since: 0.1
 */
FIBERRT_API int fiber_spawn(fiber_t *out, void *(*fn)(void *), void *arg) FIBERRT_LINKNAME(fiber_spawn);

/**
 * fiber_spawn with attributes, which say for instance on which cord; NULL means the defaults. With out NULL it is
 * detached, whatever the attributes say.
 *
 * Where: a fiber. Switches: no. Errors: as fiber_new, except that out may be NULL. Since: 0.1
 */
FIBERRT_API int fiber_spawn_attr(fiber_t *out, const fiber_attr_t *attr, void *(*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_spawn_attr);

/**
 * Runs a new fiber at once. The caller goes to the front of the run queue: it goes on when the started fiber first
 * gives way, before every other runnable fiber. A fiber of another cord is scheduled there, as by fiber_wakeup.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EBUSY the fiber was started or woken before; -ESRCH it has ended; -EAGAIN no stack is to be had: it stays
 * new. Since: 0.1
 */
FIBERRT_API int fiber_start(fiber_t fiber) FIBERRT_LINKNAME(fiber_start);

/**
 * Waits until a fiber has ended. *result (result may be NULL) is then what its function returned or gave to fiber_exit,
 * or FIBER_CANCELED if it was cancelled before it ever ran. All fibers that wait at the death receive the result; when
 * one of them has, or if there were none the first to come has, the handle is stale. After -ECANCELED, -EINTR or
 * -ETIMEDOUT it can be joined again.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EINVAL the fiber is detached, or it was hosted and its step has returned what it must not (fiber_step_t);
 * -EDEADLK it is the caller; -EAGAIN it could not run at all for want of a stack; -EOWNERDEAD its thread has exited
 * without its having ended, or it is a main flow and the function of fiber_cord_start has returned. Since: 0.1
 */
FIBERRT_API int fiber_join(fiber_t fiber, void **result) FIBERRT_LINKNAME(fiber_join) FIBERRT_CHECK_RESULT;

/**
 * fiber_join that waits at most timeout_ns nanoseconds. To ask another cord takes a moment: a timeout of 0 may report
 * one of its fibers that has just ended as not ended.
 *
 * Where: a fiber. Switches: yes.
 * Errors: as fiber_join; -ETIMEDOUT it has not ended in time and can be joined again; -EINVAL timeout_ns < 0. Since:
 * 0.1
 */
FIBERRT_API int fiber_join_timeout(fiber_t fiber, void **result, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_join_timeout) FIBERRT_CHECK_RESULT;

/**
 * Waits until a fiber has ended and leaves its result to fiber_join. Any number of fibers may wait so, before or while
 * another fiber joins it. Returns 0 in whatever way the fiber has ended; for a main flow, which ends with its
 * thread, -EOWNERDEAD. The fiber may be detached; then its handle is stale afterwards.
 *
 *     if (fiber_await(worker) == 0) // a supervisor, which only wants to know
 *         puts("the worker has ended");
 *     int error = fiber_join(worker, &result); // its owner takes the result, before or after that
 *
 * Where: a fiber. Switches: yes.
 * Errors: -ESRCH also when it was detached, or has been joined, and has ended before; -EDEADLK it is the caller;
 * -EOWNERDEAD as from fiber_join. Since: 0.1
 */
FIBERRT_API int fiber_await(fiber_t fiber) FIBERRT_LINKNAME(fiber_await) FIBERRT_CHECK_RESULT;

/**
 * fiber_await that waits at most timeout_ns nanoseconds. To ask another cord takes a moment: with a timeout of 0 a
 * fiber of another cord that has just ended may be reported as not ended.
 *
 * Where: a fiber. Switches: yes.
 * Errors: as fiber_await; -ETIMEDOUT it has not ended in time; -EINVAL timeout_ns < 0. Since: 0.1
 */
FIBERRT_API int fiber_await_timeout(fiber_t fiber, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_await_timeout) FIBERRT_CHECK_RESULT;

/**
 * Makes a fiber one that nobody joins: its handle goes stale when it ends, at once if it has ended. Fibers already
 * waiting in fiber_join still receive its result; who asks to join it afterwards, on whichever cord, is refused.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL the fiber is detached already, or is a main flow. Since: 0.1
 */
FIBERRT_API int fiber_detach(fiber_t fiber) FIBERRT_LINKNAME(fiber_detach);

/**
 * Ends the calling fiber as if its function had returned result: mutexes that it still holds are passed on, its scopes
 * are closed, the destructors of its keys run, its joiners wake, in this order. C++ objects on its stack are NOT
 * destroyed: in C++ return from the function instead. Does not return on success.
 *
 * Where: a fiber. Switches: yes, for good; a cancelled fiber may call it too.
 * Errors: -EPERM from a main flow, inside a no-switch section, or from a key's destructor. Since: 0.1
 */
FIBERRT_API int fiber_exit(void *result) FIBERRT_LINKNAME(fiber_exit);

/**
 * The handle of the calling fiber.
 *
 * Where: a fiber. Switches: no. Errors: -EINVAL out is NULL. Since: 0.1
 */
FIBERRT_API int fiber_self(fiber_t *out) FIBERRT_LINKNAME(fiber_self);

/* What a fiber does; fiber_state returns it. */
#define FIBER_NEW 0      /* created, neither started nor woken */
#define FIBER_RUNNABLE 1 /* in the run queue */
#define FIBER_RUNNING 2  /* the one that runs on its thread */
#define FIBER_WAITING 3  /* parked: in a yield, a sleep, a join, an operation, … */
#define FIBER_DEAD 4     /* ended, and not joined yet */

/**
 * The state of a fiber, one of FIBER_NEW … FIBER_DEAD.
 *
 * Where: anywhere. Switches: no. Errors: those of a handle. Since: 0.1
 */
FIBERRT_API int fiber_state(fiber_t fiber) FIBERRT_LINKNAME(fiber_state);

/**
 * Copies a fiber's name into buffer, cut to size bytes with the terminating zero. Returns the length of the whole name.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL buffer is NULL or size is 0. Since: 0.1
 */
FIBERRT_API int fiber_name(fiber_t fiber, char *buffer, size_t size) FIBERRT_LINKNAME(fiber_name);

/**
 * Names a fiber. The text is copied; only its first FIBER_NAME_MAX - 1 bytes are kept.
 *
 * Where: a fiber of its cord. Switches: no. Errors: -EINVAL name is NULL; -EPERM it belongs to another cord. Since: 0.1
 */
FIBERRT_API int fiber_set_name(fiber_t fiber, const char *name) FIBERRT_LINKNAME(fiber_set_name);

/* ------------------------------------------------------------------------------------------------------------------
 * Switching
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Parks the calling fiber until fiber_wakeup. A wakeup that came while it ran, or waited for something else, is
 * remembered (one only, the permit): then the others get their turn and the call returns 0. A call that fails leaves
 * the permit. To give the others a turn and go on, use fiber_reschedule.
 *
 * Where: a fiber. Switches: yes. Errors: only those of every switching call. Since: 0.1
 */
FIBERRT_API int fiber_yield(void) FIBERRT_LINKNAME(fiber_yield);

/**
 * fiber_yield that waits at most timeout_ns nanoseconds; 0 gives the others one turn, and is -ETIMEDOUT unless the
 * caller has been woken by then.
 *
 * Where: a fiber. Switches: yes. Errors: -ETIMEDOUT not woken in time; -EINVAL timeout_ns < 0. Since: 0.1
 */
FIBERRT_API int fiber_yield_timeout(int64_t timeout_ns) FIBERRT_LINKNAME(fiber_yield_timeout);

/**
 * fiber_yield that receives the value of fiber_wakeup_value or fiber_transfer in *value, NULL if it was woken without
 * one. (A plain fiber_yield drops the value.)
 *
 * Where: a fiber. Switches: yes. Errors: -EINVAL value is NULL. Since: 0.1
 */
FIBERRT_API int fiber_yield_value(void **value) FIBERRT_LINKNAME(fiber_yield_value);

/**
 * Makes a fiber that is parked in a yield runnable, at the end of the run queue; schedules the first run of a new one.
 * If it is queued because of an earlier wakeup, nothing more happens; otherwise (it runs, waits for something else, or
 * is queued for another reason) the permit is left for its next yield. Never ends a sleep, an operation, a join or a
 * transfer. Waking a fiber that has ended and is not joined yet is allowed and does nothing.
 *
 * Where: anywhere (opens no cord). Switches: no. Errors: those of a handle. Since: 0.1
 */
FIBERRT_API int fiber_wakeup(fiber_t fiber) FIBERRT_LINKNAME(fiber_wakeup);

/**
 * fiber_wakeup that carries a value to the fiber_yield_value that it ends. The pointer is passed on, never followed. A
 * value is never overwritten.
 *
 * Where: a fiber. Switches: no.
 * Errors: -EBUSY a permit is pending, it is queued because of an earlier wakeup, or it is new; -ESRCH it has ended;
 * -EPERM it belongs to another cord. Since: 0.1
 */
FIBERRT_API int fiber_wakeup_value(fiber_t fiber, void *value) FIBERRT_LINKNAME(fiber_wakeup_value);

/**
 * Gives every fiber that is runnable now its turn, then goes on.
 *
 * Where: a fiber. Switches: yes. Errors: only those of every switching call. Since: 0.1
 */
FIBERRT_API int fiber_reschedule(void) FIBERRT_LINKNAME(fiber_reschedule);

/**
 * fiber_reschedule if the thread has not looked for I/O and timers for 100 microseconds, else nothing: for long
 * computations. Reads the clock.
 *
 * Where: a fiber. Switches: yes. Errors: only those of every switching call. Since: 0.1
 */
FIBERRT_API int fiber_reschedule_if_due(void) FIBERRT_LINKNAME(fiber_reschedule_if_due);

/**
 * Gives the thread and a value to the fiber to, which is new or parked in a yield or a transfer, and parks the caller
 * until somebody transfers to it. Returns 0, with the value then given in *out (out may be NULL); or 1 when `to` has
 * ended and the caller was the last to have transferred to it, with its result in *out. The run queue is left as it is.
 * A new fiber reads the value by fiber_transferrer. The pointers are passed on, never followed.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EBUSY `to` is not parked so, or is the caller; -ESRCH it has ended; -EPERM it belongs to another cord;
 * -EAGAIN it is new and there is no stack. Since: 0.1
 */
FIBERRT_API int fiber_transfer(fiber_t to, void *in, void **out) FIBERRT_LINKNAME(fiber_transfer);

/**
 * Who last transferred to the calling fiber, and the value given then (after a transfer that returned 1: the result).
 * Both may be NULL.
 *
 * Where: a fiber. Switches: no. Errors: -ESRCH nobody has transferred to it. Since: 0.1
 */
FIBERRT_API int fiber_transferrer(fiber_t *from, void **value) FIBERRT_LINKNAME(fiber_transferrer);

/**
 * Parks the calling fiber for at least ns nanoseconds. 0 is one pass of the run queue with one look for I/O and timers.
 * No wakeup ends it.
 *
 * Where: a fiber. Switches: yes. Errors: -EINVAL ns < 0. Since: 0.1
 */
FIBERRT_API int fiber_sleep(int64_t ns) FIBERRT_LINKNAME(fiber_sleep);

/**
 * Waits for the next tick of a steady beat: the ticks lie period_ns nanoseconds apart, and whatever the caller does
 * between two calls neither shifts them nor lets them come in a burst afterwards. For work that is to be done so often:
 *
 *     int64_t tick = 0;
 *     while (fiber_every(&tick, FIBER_SEC(1)) >= 0) measure();
 *
 * *tick_ns is the time of the last tick, of fiber_now; the call waits for the one a period later, sets *tick_ns to its
 * time, and returns 0. If that has gone by already, it waits for the first that has not, and returns how many it has
 * left out. (A tick that comes during the call and is noticed late is not left out; how late, fiber_now() - *tick_ns
 * tells.) At the beginning *tick_ns is 0, which becomes the time of the call, or any other time, from which on ticks
 * are counted; it may be set anew between two calls, and the period be another at each. It is the caller's, of one
 * fiber at a time, and must live until the call returns.
 *
 * A wait that is ended early leaves the tick as it is: the call, made again, waits for the same one, or tells that it
 * was left out. (A 0 has become the time of the call then.) A tick that would come after INT64_MAX never comes. No
 * wakeup ends the wait, and others get their turn also if the tick is due at once.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EINVAL tick_ns is NULL, *tick_ns < 0 or period_ns <= 0. Since: 0.1
 */
FIBERRT_API int64_t fiber_every(int64_t *tick_ns, int64_t period_ns) FIBERRT_LINKNAME(fiber_every);

/**
 * Begins a section in which the calling fiber does not want to lose its thread: until the matching
 * fiber_noswitch_leave, every call that says "Switches: yes" returns -EPERM and does nothing. Sections nest. A library
 * built for debugging (CMAKE_BUILD_TYPE=Debug) also tells on standard error where the call was made and where the
 * section was entered.
 *
 * Where: a fiber. Switches: no. Errors: -EAGAIN 65,535 sections are open. Since: 0.1
 */
FIBERRT_API int fiber_noswitch_enter(void) FIBERRT_LINKNAME(fiber_noswitch_enter);

/**
 * Ends the innermost no-switch section. A function that the library calls in a section (a hook, apply of an ambient
 * key, free_arg, a destructor at a thread's exit) can end those that it has begun itself, no other.
 *
 * Where: a fiber. Switches: no. Errors: -EINVAL no section is open. Since: 0.1
 */
FIBERRT_API int fiber_noswitch_leave(void) FIBERRT_LINKNAME(fiber_noswitch_leave);

/* ------------------------------------------------------------------------------------------------------------------
 * Cancelling
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Cancels a fiber. It stays cancelled: its present wait ends with -ECANCELED, and so does every later call that
 * switches, except those inside a shielded scope (FIBER_SCOPE_SHIELD, FIBER_SCOPE_SHIELD_CANCEL), fiber_close,
 * fiber_scope_close, fiber_mutex_lock (and the lock that fiber_cond_wait takes again) and fiber_exit;
 * fiber_process_wait returns it too, but ends the child first. A fiber that never started never runs. The children of
 * its scopes are cancelled with it, with the same reason, except those of shielded scopes and of scopes inside these.
 * A wait that completed before stays completed. Of several reasons the first stays; the pointer is never followed.
 * Cancelling oneself is allowed; cancelling a fiber that has ended does nothing.
 *
 * Where: anywhere. Switches: no. Errors: those of a handle. Since: 0.1
 */
FIBERRT_API int fiber_cancel(fiber_t fiber, void *reason) FIBERRT_LINKNAME(fiber_cancel);

/**
 * Returns 1 if the calling fiber is cancelled, and the reason in *reason (which may be NULL); otherwise 0. Shields do
 * not hide it.
 *
 * Where: a fiber. Switches: no. Errors: none but those of opening a cord. Since: 0.1
 */
FIBERRT_API int fiber_cancelled(void **reason) FIBERRT_LINKNAME(fiber_cancelled);

/**
 * Ends the present wait of a fiber, or if it does not wait the next call of its that switches, once, with -EINTR. The
 * fiber finds the value by fiber_interrupted. A new fiber is interrupted in its first such call.
 *
 * Where: anywhere. Switches: no.
 * Errors: -EBUSY an interrupt is pending; or, of a fiber of the caller's cord, one has ended a wait that has not
 * returned yet. Since: 0.1
 */
FIBERRT_API int fiber_interrupt(fiber_t fiber, void *value) FIBERRT_LINKNAME(fiber_interrupt);

/**
 * The value of the interrupt that last ended a call of this fiber with -EINTR. Returns 1, or 0 if there was none.
 *
 * Where: a fiber. Switches: no. Errors: -EINVAL value is NULL. Since: 0.1
 */
FIBERRT_API int fiber_interrupted(void **value) FIBERRT_LINKNAME(fiber_interrupted);

/* Flags of fiber_scope_open. Of COLLECT and FIRST at most one; without them, the first child that fails cancels the
 * others. */
#define FIBER_SCOPE_SHIELD 1u  /* inside, cancels, interrupts and deadlines from outside are held back, not lost */
#define FIBER_SCOPE_COLLECT 2u /* whatever a child returns, the others go on */
#define FIBER_SCOPE_FIRST 4u   /* the first child that succeeds cancels the others */
#define FIBER_SCOPE_SHIELD_CANCEL 8u /* inside, cancels from outside are held back; interrupts and deadlines are not */

/**
 * Opens a scope of the calling fiber: when timeout_ns nanoseconds have passed (FIBER_FOREVER: never), its waits end
 * with -ETIMEDOUT, and every later call that switches returns -ETIMEDOUT, until the scope is closed. That the deadline
 * has passed is noticed when a wait begins or goes on, and otherwise at the thread's next look at the clock, a bounded
 * number of switches later; so a wait with a deadline of 0 or one already past tries once. Scopes nest; the earliest
 * deadline counts. A scope may have children (fiber_scope_spawn), which end before it does. The caller owns the scope
 * and closes it in the same fiber; a fiber's end closes what it left open, after having cancelled the children there.
 *
 * FIBER_SCOPE_SHIELD holds back all that comes from outside the scope: cancels of the fiber and of scopes around this
 * one, interrupts, and the deadlines of scopes around this one. FIBER_SCOPE_SHIELD_CANCEL holds back only the cancels,
 * as pthread_setcancelstate(3) does. A cancel, interrupt or deadline that was held back takes effect when the scope is
 * closed. The deadline and the cancel of the scope itself take effect inside it, with either flag.
 *
 * Where: a fiber. Switches: no.
 * Errors: -EINVAL out is NULL, timeout_ns < 0, an unknown flag, or both COLLECT and FIRST; -ENOMEM; -EAGAIN 16,777,216
 * scopes are open. Since: 0.1
 */
FIBERRT_API int fiber_scope_open(fiber_scope_t *out, int64_t timeout_ns, unsigned flags)
    FIBERRT_LINKNAME(fiber_scope_open);

/**
 * Makes a fiber that is a child of an open scope, on the calling thread's cord, and schedules its first run of fn(arg).
 * Its result says how it went: less than 0 is failure. A child that never ran has failed with -ECANCELED (it was
 * cancelled before) or -EAGAIN (there was no stack), one whose thread has exited, also while it was sent there, with
 * -EOWNERDEAD.
 *
 * All children are cancelled when the scope is (fiber_scope_cancel), when its deadline fires, when either happens to a
 * scope around it or its fiber is cancelled, unless a shielded scope lies in between (it may be this one); when the
 * first of them has failed or succeeded, by the flags of the scope; and at the end of its fiber, or of the thread, in
 * which case nobody waits for those on other cords. The first reason stays their reason. From then on the scope starts
 * no children: who is spawned all the same never runs, and has ended with -ECANCELED. What the others do, the scope's
 * own fiber is not told by its calls: it may go on, wait in fiber_scope_next, or close the scope.
 *
 * *out (out may be NULL) is the child's handle, which may be joined, cancelled, detached as any other (fiber_detach
 * changes nothing for the scope, which still waits for it and tells of it); it is stale once the child has ended. What
 * arg points to stays the caller's, also if the child never runs.
 *
 * Where: a fiber of the cord of the scope's own; once that has made a child, any fiber: the children may spawn others.
 * Switches: no.
 * Errors: -EINVAL fn is NULL; -ESRCH the scope is closed; -EPERM it is of another cord and has had no child yet;
 * -ENOMEM; -EAGAIN there are 16,777,216 fibers or children already; -EPIPE the cord is being shut down, or the scope's
 * has ended, and it is a key's destructor that asks for the first child. Since: 0.1
 */
FIBERRT_API int fiber_scope_spawn(fiber_scope_t scope, fiber_t *out, int64_t (*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_scope_spawn);

/**
 * fiber_scope_spawn with attributes, which say on which cord, for instance; NULL means the defaults. Of a child with
 * the attribute of a detached fiber fiber_scope_next does not tell, so that nothing remains of it when it has ended:
 * for scopes that live long and whose children nobody asks for. Its failure or success counts all the same.
 *
 * With the attribute of a pool (fiber_attr_set_pool) the child is a task of that pool, which has no handle before it
 * begins: out must be NULL. If the scope has been stopped by the time the task would begin, it does not, and has ended
 * with -ECANCELED. fiber_scope_next tells of it by the handle that it had as a fiber, which is zero if it never ran.
 *
 * Where: as fiber_scope_spawn. Switches: no.
 * Errors: as fiber_scope_spawn; -ESRCH the cord or the pool of the attributes has ended; those of fiber_pool_submit;
 * -EINVAL of a task: out is not NULL, or a cord is set, too. Since: 0.1
 */
FIBERRT_API int fiber_scope_spawn_attr(fiber_scope_t scope, fiber_t *out, const fiber_attr_t *attr,
                                       int64_t (*fn)(void *), void *arg) FIBERRT_LINKNAME(fiber_scope_spawn_attr);

/**
 * Waits for whichever child of a scope ends next. Returns 1, and the child's handle in *child, which is stale but tells
 * the children apart, and its result in *result (both may be NULL); each end is told once, in the order in which the
 * scope's thread has heard of them. Returns 0 if all have ended and been told, but for those with the attribute of a
 * detached fiber, which may still run.
 *
 * Where: the fiber that opened the scope. Switches: yes. Errors: -EPERM another fiber opened it. Since: 0.1
 */
FIBERRT_API int fiber_scope_next(fiber_scope_t scope, fiber_t *child, int64_t *result)
    FIBERRT_LINKNAME(fiber_scope_next);

/**
 * Cancels a scope: until it is closed, the calls of its fiber inside it are refused or ended with -ECANCELED, and its
 * children are cancelled with this reason, as if the deadline had fired. Shields inside it hold it back. The fiber
 * itself is not cancelled: fiber_cancelled is 0 in it. Of several reasons the first stays; the pointer is never
 * followed.
 *
 * Where: anywhere. Switches: no. Errors: -ESRCH it is closed. Since: 0.1
 */
FIBERRT_API int fiber_scope_cancel(fiber_scope_t scope, void *reason) FIBERRT_LINKNAME(fiber_scope_cancel);

/**
 * Moves the deadline of an open scope to timeout_ns nanoseconds from now. If it had fired and now lies ahead, it counts
 * as not fired; children that it has cancelled stay cancelled.
 *
 * Where: the fiber that opened it. Switches: no.
 * Errors: -EPERM another fiber opened it; -EINVAL timeout_ns < 0. Since: 0.1
 */
FIBERRT_API int fiber_scope_set_timeout(fiber_scope_t scope, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_scope_set_timeout);

/**
 * Closes a scope, and first those opened inside it that are still open. Waits until all children have ended, whatever
 * happens: nothing ends this wait, but while it lasts cancels and deadlines reach the children as before. Returns the
 * verdict: -ECANCELED if this scope itself was cancelled by fiber_scope_cancel; else -ETIMEDOUT if its own deadline
 * fired, that is if it ended or refused a call, cancelled children, or was seen to pass; else 0, whatever the children
 * returned. *failure (failure may be NULL) is what the first child that failed returned, 0 if none has; -ECANCELED of a
 * child that the scope had cancelled is no failure.
 *
 * Where: the fiber that opened it. Switches: yes, if there are children; a cancelled fiber may call it too.
 * Errors: -EPERM another fiber opened it, or children are left inside a no-switch section; -ESRCH it is closed;
 * -EDEADLK the children can certainly never end (of a main flow): it stays open. Since: 0.1
 */
FIBERRT_API int fiber_scope_close(fiber_scope_t scope, int64_t *failure) FIBERRT_LINKNAME(fiber_scope_close);

/* What FIBER_WITH_TIMEOUT keeps; not to be used by itself. */
typedef struct {
    fiber_scope_t scope;
    int *verdict;
    int once;
} fiber_timeout_block_t;

/** Opens the scope of a FIBER_WITH_TIMEOUT block; not to be called by itself. Where: a fiber. Switches: no.
 *  Errors: none but in *verdict. Since: 0.1 */
FIBERRT_API fiber_timeout_block_t fiber_timeout_block_open(int64_t timeout_ns, int *verdict)
    FIBERRT_LINKNAME(fiber_timeout_block_open);
/** Closes the scope of a FIBER_WITH_TIMEOUT block; not to be called by itself. Where: the fiber that opened it.
 *  Switches: yes, if a scope with children was left open inside. Errors: none but in *verdict. Since: 0.1 */
FIBERRT_API void fiber_timeout_block_close(fiber_timeout_block_t *block) FIBERRT_LINKNAME(fiber_timeout_block_close);

/**
 * FIBER_WITH_TIMEOUT(ns, &verdict) { ... } runs the block in a scope of its own. The scope is closed however the block
 * is left, return, goto and break included (break leaves the block, not a loop around it); longjmp and fiber_exit leave
 * it open. The verdict (the pointer may be NULL) is that of fiber_scope_close; if the scope cannot be opened it is
 * fiber_scope_open's error, and the block does not run.
 *
 * Where: a fiber. Switches: yes, at its end, as fiber_scope_close. Errors: none but in *verdict. Since: 0.1
 */
#define FIBER_WITH_TIMEOUT(timeout_ns, verdict) \
    FIBERRT_TIMEOUT_BLOCK_(FIBERRT_PASTE_(fiberrt_block_, __LINE__), timeout_ns, verdict)
#define FIBERRT_TIMEOUT_BLOCK_(name, timeout_ns, verdict)                                 \
    for (fiber_timeout_block_t name __attribute__((cleanup(fiber_timeout_block_close))) = \
             fiber_timeout_block_open(timeout_ns, verdict);                               \
         name.once; name.once = 0)
#define FIBERRT_PASTE_(a, b) FIBERRT_PASTE2_(a, b)
#define FIBERRT_PASTE2_(a, b) a##b

/* ------------------------------------------------------------------------------------------------------------------
 * Cords
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Makes an attribute object for cords, with the defaults: no name, the affinity of the thread that starts the cord. The
 * caller owns *out and ends it with fiber_cord_attr_destroy.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL out is NULL; -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_cord_attr_create(fiber_cord_attr_t **out) FIBERRT_LINKNAME(fiber_cord_attr_create);

/**
 * Frees an attribute object. NULL is allowed and does nothing.
 *
 * Where: anywhere. Switches: no. Errors: none (returns 0). Since: 0.1
 */
FIBERRT_API int fiber_cord_attr_destroy(fiber_cord_attr_t *attr) FIBERRT_LINKNAME(fiber_cord_attr_destroy);

/**
 * Names the cord and its thread. The text is copied; only its first 15 bytes are kept.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr or name is NULL. Since: 0.1
 */
FIBERRT_API int fiber_cord_attr_set_name(fiber_cord_attr_t *attr, const char *name)
    FIBERRT_LINKNAME(fiber_cord_attr_set_name);

/**
 * Sets the processors that the cord's thread may run on, by their numbers; count 0 takes the setting back. The array is
 * copied.
 *
 * Where: anywhere. Switches: no.
 * Errors: -EINVAL attr is NULL, cpus is NULL with a count, or a number is below 0 or above 1,023. Since: 0.1
 */
FIBERRT_API int fiber_cord_attr_set_affinity(fiber_cord_attr_t *attr, const int *cpus, size_t count)
    FIBERRT_LINKNAME(fiber_cord_attr_set_affinity);

/**
 * Starts a thread with a cord, whose main flow runs fn(arg). The cord ends when fn has returned and all its fibers have
 * ended, but for daemons: those then never run again. (A fiber that was created and never started keeps it too, and so
 * do posts that never cease to come.) It must be joined once, else its record is kept. attr NULL means the defaults.
 * The thread begins with all signals blocked but those that an instruction raises (see "Signals"). In a
 * simulation the cord has no thread of its own (docs/simulation.md).
 *
 * Where: anywhere; in a simulation on its thread. Switches: no.
 * Errors: -EINVAL out or fn is NULL, or there is no such processor; -ENOMEM; -EAGAIN no thread is to be had, or there
 * are 65,536 cords; -ENOTSUP in a simulation on any thread but the first. Since: 0.1
 */
FIBERRT_API int fiber_cord_start(fiber_cord_t *out, const fiber_cord_attr_t *attr, void *(*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_cord_start);

/**
 * Waits until a cord has ended. *result (result may be NULL) is then what its function returned. All that wait at its
 * end receive the result; when one has, or if there were none the first to come has, the handle is stale. Of its
 * thread, the destructors of thread-local variables may still be running.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EINVAL its thread was not made by fiber_cord_start; -EDEADLK it is the caller's own. Since: 0.1
 */
FIBERRT_API int fiber_cord_join(fiber_cord_t cord, void **result)
    FIBERRT_LINKNAME(fiber_cord_join) FIBERRT_CHECK_RESULT;

/**
 * fiber_cord_join that waits at most timeout_ns nanoseconds.
 *
 * Where: a fiber. Switches: yes.
 * Errors: as fiber_cord_join; -ETIMEDOUT it has not ended in time and can be joined again; -EINVAL timeout_ns < 0.
 * Since: 0.1
 */
FIBERRT_API int fiber_cord_join_timeout(fiber_cord_t cord, void **result, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_cord_join_timeout) FIBERRT_CHECK_RESULT;

/**
 * The handle of the calling thread's cord.
 *
 * Where: a fiber. Switches: no. Errors: -EINVAL out is NULL. Since: 0.1
 */
FIBERRT_API int fiber_cord_self(fiber_cord_t *out) FIBERRT_LINKNAME(fiber_cord_self);

/**
 * Copies a cord's name into buffer, cut to size bytes with the terminating zero. Returns the length of the whole name;
 * a cord that was not given one has the empty name.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL buffer is NULL or size is 0. Since: 0.1
 */
FIBERRT_API int fiber_cord_name(fiber_cord_t cord, char *buffer, size_t size) FIBERRT_LINKNAME(fiber_cord_name);

/**
 * Shuts a cord down. From now on it takes no new fibers (-EPIPE; those already on their way to it are cancelled). Waits
 * until its other fibers have ended, daemons not counted, at most grace_ns nanoseconds; then cancels all that are left,
 * and waits until these have ended too, until deadline_ns nanoseconds after the call. Returns how many are left then, 0
 * for none. The caller is not counted, nor is the main flow of a thread that fiber_cord_start has not made. It is the
 * cord's fibers that are shut down, not its thread.
 *
 * Where: a fiber, of this or another cord. Switches: yes; if the caller's wait ends early, the shutdown of another cord
 * goes on.
 * Errors: -EINVAL grace_ns < 0 or deadline_ns < grace_ns; -ENOMEM, -EAGAIN no fiber is to be had to do it there;
 * -EBUSY the cord works for a pool. Since: 0.1
 */
FIBERRT_API int fiber_cord_shutdown(fiber_cord_t cord, int64_t grace_ns, int64_t deadline_ns)
    FIBERRT_LINKNAME(fiber_cord_shutdown);

/**
 * Starts a detached fiber that runs fn(arg) on a cord: made, sent there and scheduled. What one thread posts to one
 * cord begins in the order in which it was posted. A post that was accepted runs, unless the cord's thread exits or the
 * cord is shut down before.
 *
 * Where: anywhere (opens no cord). Switches: no.
 * Errors: -EINVAL fn is NULL; -ENOMEM; -EAGAIN as fiber_new; -EPIPE the cord is being shut down; -ESRCH the cord
 * has ended. Since: 0.1
 */
FIBERRT_API int fiber_post(fiber_cord_t cord, void *(*fn)(void *), void *arg) FIBERRT_LINKNAME(fiber_post);

/* ------------------------------------------------------------------------------------------------------------------
 * Pools
 *
 * A pool runs TASKS: functions that need not run on a certain thread. Its WORKERS are cords that it starts; other
 * threads may be bound to it and work as well. A task that has not begun has neither a stack nor a handle, and any of
 * them may take it: one that has nothing to do takes tasks from others. A task that has begun is a fiber of the thread
 * that has taken it: it may wait, then other tasks and fibers run there, and it goes on there. fiber_self is a handle
 * of its own, which is stale when the task has ended; the fiber is detached.
 *
 * On each thread fibers that are woken come before tasks that have not begun. Tasks begin in the order in which they
 * were submitted there, those for that thread alone and all others each in theirs; while there are both, they take
 * turns. Between threads there is no order. Every task that was accepted runs exactly once, also those that tasks
 * submit while the pool is being closed; only a bound thread that exits may lose some (fiber_pool_bind), of which
 * fiber_pool_close tells. To wait for some tasks, use a wait group, or a scope whose children they are
 * (fiber_attr_set_pool).
 *
 *     fiber_pool_t pool;
 *     fiber_pool_create(&pool, NULL);
 *     fiber_wg_add(&group, 2);
 *     fiber_pool_submit(pool, first_half, &work);     // each ends with fiber_wg_done(&group)
 *     fiber_pool_submit(pool, second_half, &work);
 *     int error = fiber_wg_wait(&group);
 *     int lost = fiber_pool_close(pool);
 * --------------------------------------------------------------------------------------------------------------- */

/* The most workers of a pool, and the most threads that work for one at a time. */
#define FIBER_POOL_WORKERS_MAX 1024

/* What fiber_pool_attr_set_affinity does with the processors. */
#define FIBER_POOL_ANY_OF 0 /* each worker may run on any of them */
#define FIBER_POOL_ONE_OF 1 /* each worker runs on one of them: in turn, by their numbers, each counted once */

/* Flags of fiber_pool_submit_flags. */
#define FIBER_TASK_SAME_THREAD 1u /* on the calling thread, which works for the pool */

/**
 * Makes an attribute object for pools, with the defaults: as many workers as there are processors for the calling
 * thread, its affinity, stacks of FIBER_STACK_DEFAULT, no initialiser, no name, no limit of begun tasks, bound threads
 * that help the workers. The caller owns *out and ends it with fiber_pool_attr_destroy.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL out is NULL; -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_create(fiber_pool_attr_t **out) FIBERRT_LINKNAME(fiber_pool_attr_create);

/**
 * Frees an attribute object. NULL is allowed and does nothing.
 *
 * Where: anywhere. Switches: no. Errors: none (returns 0). Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_destroy(fiber_pool_attr_t *attr) FIBERRT_LINKNAME(fiber_pool_attr_destroy);

/**
 * Sets how many workers the pool starts. With 0, tasks run on the threads that are bound, when these wait.
 *
 * Where: anywhere. Switches: no.
 * Errors: -EINVAL attr is NULL, or count is below 0 or above FIBER_POOL_WORKERS_MAX. Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_set_workers(fiber_pool_attr_t *attr, int count)
    FIBERRT_LINKNAME(fiber_pool_attr_set_workers);

/**
 * Sets the size of the stacks that tasks run on, as fiber_attr_set_stack_size does.
 *
 * Where: anywhere. Switches: no.
 * Errors: -EINVAL attr is NULL, or bytes is below FIBER_STACK_MIN or above FIBER_STACK_MAX. Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_set_stack_size(fiber_pool_attr_t *attr, size_t bytes)
    FIBERRT_LINKNAME(fiber_pool_attr_set_stack_size);

/**
 * Sets the size of the guards below the stacks that tasks run on, as fiber_attr_set_guard_size does.
 *
 * Where: anywhere. Switches: no.
 * Errors: -EINVAL attr is NULL, bytes is 0 or above FIBER_GUARD_SIZE_MAX. Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_set_guard_size(fiber_pool_attr_t *attr, size_t bytes)
    FIBERRT_LINKNAME(fiber_pool_attr_set_guard_size);

/**
 * Sets the processors that the workers may run on, by their numbers; count 0 takes the setting back. policy is
 * FIBER_POOL_ANY_OF or FIBER_POOL_ONE_OF. The array is copied.
 *
 * Where: anywhere. Switches: no.
 * Errors: -EINVAL attr is NULL, cpus is NULL with a count, a number is below 0 or above 1,023, or an unknown policy.
 * Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_set_affinity(fiber_pool_attr_t *attr, const int *cpus, size_t count, int policy)
    FIBERRT_LINKNAME(fiber_pool_attr_set_affinity);

/**
 * Sets the most nanoseconds that a worker without work looks out for some before it sleeps; 0: it sleeps at once. It
 * looks out so long only if that has paid just before, and never with more cords awake than processors; what finds it
 * awake costs no system call. Without this it is what any cord does, 50 microseconds.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL or spin_ns < 0. Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_set_spin(fiber_pool_attr_t *attr, int64_t spin_ns)
    FIBERRT_LINKNAME(fiber_pool_attr_set_spin);

/**
 * Sets a function that each worker's thread calls before it takes tasks, on its main flow: init(arg, worker), the
 * workers being counted from 0. It may wait. init NULL takes the setting back. What arg points to stays the caller's.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL. Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_set_init(fiber_pool_attr_t *attr, void (*init)(void *arg, int worker), void *arg)
    FIBERRT_LINKNAME(fiber_pool_attr_set_init);

/**
 * Names the workers' cords and threads: this name and the worker's number, cut to 15 bytes. The text is copied.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr or name is NULL. Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_set_name(fiber_pool_attr_t *attr, const char *name)
    FIBERRT_LINKNAME(fiber_pool_attr_set_name);

/**
 * Sets how many tasks may have begun and not ended on each thread that works for the pool; 0, the default: any number.
 * A task that waits has begun. A thread that has so many begins no task until one of them has ended; meanwhile
 * threads with fewer take the tasks that are in its queue. So the pool never has more begun tasks, each with its stack,
 * than this times the number of threads. Tasks that wait for tasks that have not begun may then wait for ever.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL or count < 0. Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_set_task_limit(fiber_pool_attr_t *attr, int count)
    FIBERRT_LINKNAME(fiber_pool_attr_set_task_limit);

/**
 * Says whether threads that are bound help the workers (help is not 0, the default): take tasks that any thread may
 * run. With help 0 a bound thread runs only tasks that are for it alone (FIBER_TASK_SAME_THREAD), and other tasks that
 * it submits go to the workers. In a pool without workers bound threads take all tasks.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL. Since: 0.1
 */
FIBERRT_API int fiber_pool_attr_set_bound_help(fiber_pool_attr_t *attr, int help)
    FIBERRT_LINKNAME(fiber_pool_attr_set_bound_help);

/**
 * Makes a pool and starts its workers. attr NULL means the defaults. The caller owns it and ends it with
 * fiber_pool_close. The workers begin with signals blocked as cords do.
 *
 * Where: anywhere; in a simulation on its thread. Switches: no.
 * Errors: -EINVAL out is NULL, or there is no such processor; -ENOMEM; -EAGAIN a thread is not to be had, or there are
 * 1,024 pools or 65,536 cords; -ENOTSUP in a simulation on any thread but the first. Since: 0.1
 */
FIBERRT_API int fiber_pool_create(fiber_pool_t *out, const fiber_pool_attr_t *attr)
    FIBERRT_LINKNAME(fiber_pool_create);

/**
 * Gives a pool a task: one of its threads will run fn(arg), once; the result is dropped. What arg points to stays the
 * caller's.
 *
 * Where: anywhere (opens no cord). Switches: no.
 * Errors: -EINVAL fn is NULL; -EPIPE the pool is being closed, and the caller is not one of its tasks; -ENXIO the pool
 * has no workers, and no thread is bound to it; -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_pool_submit(fiber_pool_t pool, void *(*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_pool_submit);

/**
 * fiber_pool_submit with flags: 0, or FIBER_TASK_SAME_THREAD.
 *
 * Where: as fiber_pool_submit. Switches: no.
 * Errors: as fiber_pool_submit; -EINVAL an unknown flag; -EPERM with FIBER_TASK_SAME_THREAD: the calling thread does
 * not work for the pool. Since: 0.1
 */
FIBERRT_API int fiber_pool_submit_flags(fiber_pool_t pool, void *(*fn)(void *), void *arg, unsigned flags)
    FIBERRT_LINKNAME(fiber_pool_submit_flags);

/**
 * Binds the calling thread to a pool: whenever its cord has nothing to run and would wait, it runs tasks, and now and
 * then while it is busy. Its own fibers that are runnable come first. fiber_pool_attr_set_bound_help says which
 * tasks it takes while the pool has workers. The binding ends by fiber_pool_unbind, by
 * fiber_pool_close on this thread, or with the function of a cord that fiber_cord_start has made. If the thread exits
 * before, its tasks that have begun never go on, like its other fibers, nor do those begin that were for it alone;
 * others take the rest.
 *
 * Where: a fiber. Switches: no.
 * Errors: -EBUSY the thread is bound already, or is a worker; -EPIPE the pool is being closed, or the cord is shut
 * down, or its function has returned; -EAGAIN 1,024 threads work for it; -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_pool_bind(fiber_pool_t pool) FIBERRT_LINKNAME(fiber_pool_bind);

/**
 * Ends the binding of the calling thread: it takes no more tasks from others, and the call waits until all that it has
 * taken have ended, those submitted meanwhile by these or by its fibers included. If the wait ends early, the thread
 * stays bound.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EPERM the thread is not bound to the pool; -EDEADLK the caller is one of its tasks; -EBUSY another fiber
 * is unbinding it. Since: 0.1
 */
FIBERRT_API int fiber_pool_unbind(fiber_pool_t pool) FIBERRT_LINKNAME(fiber_pool_unbind);

/**
 * Closes a pool: from now on only its running tasks may submit. Waits until all tasks have ended, then until the other
 * threads that are bound have unbound (the calling one is unbound by this call) and the workers' cords have ended; then
 * the pool is gone. If the wait ends early, the pool goes on closing, and the call is to be made again.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EDEADLK the caller is of a worker, or one of the tasks; -EBUSY another call closes it; -EOWNERDEAD the pool
 * is gone, but tasks were lost, since threads that were bound have exited. Since: 0.1
 */
FIBERRT_API int fiber_pool_close(fiber_pool_t pool) FIBERRT_LINKNAME(fiber_pool_close) FIBERRT_CHECK_RESULT;

/* ------------------------------------------------------------------------------------------------------------------
 * Inside another event loop
 *
 * A program that has an event loop already (GLib's, libev's, one around poll) can run fibers in that loop's thread: it
 * waits for fiber_cord_fd to become readable along with its other descriptors, and then calls fiber_cord_run(0).
 *
 *     int fd = fiber_cord_fd();
 *     for (;;) {
 *         struct pollfd wait = {fd, POLLIN, 0};
 *         poll(&wait, 1, -1);
 *         if (wait.revents) fiber_cord_run(0);
 *     }
 *
 * The loop is the thread's main flow, and so is what it calls, its callbacks. Between two runs these may make calls of
 * this header as anywhere: to spawn a fiber, wake it, cancel it, makes the descriptor readable, and the next run does
 * it. Of those that say "Switches: yes" one should know that they wait here and now: until fiber_sleep, fiber_join or
 * fiber_read returns, the other fibers run, the loop does not. Where callbacks must not do that, call them in a
 * no-switch section (fiber_noswitch_enter): then these calls return -EPERM. Calls that name a fiber act between the
 * runs as from another thread: 0 means that it was sent.
 *
 * fiber_cord_run itself is refused in no-switch sections, and to fibers other than the main flow: it cannot be nested.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * A descriptor that is readable as long as fiber_cord_run(0) would do something: a fiber is runnable, or would be after
 * a look at messages of other threads, at completed operations, and at the clock; or calls have been made since the
 * last run of which the cord has to tell the kernel. (Now and then once more, for the library's own housekeeping.) It
 * is to be waited for only (poll, select, epoll; POLLIN), level-triggered or, if every event is answered by
 * fiber_cord_run, again as long as that returns 1, edge-triggered. It belongs to the cord, is the same at every call,
 * and is closed when the thread ends, not before. The first call opens the backend. Until the first run it is readable.
 *
 * Where: the main flow (opens a cord). Switches: no.
 * Errors: -EPERM from another fiber; -EMFILE, -ENFILE, -ENOMEM, -ENOSPC; -ENOTSUP the backend has nothing to wait for,
 * or there is none (see "Input and output"). Since: 0.1
 */
FIBERRT_API int fiber_cord_fd(void) FIBERRT_LINKNAME(fiber_cord_fd);

/**
 * Runs the cord: looks at messages, operations and deadlines, and runs its fibers until none is runnable, then hands
 * all that they have begun to the kernel. If none was runnable, it waits for that at most duration_ns nanoseconds; 0
 * does not wait. Fibers that never have nothing to do are left after about a millisecond, so that the loop around goes
 * on: then it returns 1, fiber_cord_fd is still readable, and the rest runs in the next call. Otherwise it returns 0.
 *
 * It may also be used without fiber_cord_fd, by loops that come by often, once a frame perhaps.
 *
 * Where: the main flow (opens a cord). Switches: yes. While the main flow is cancelled it runs nothing, and
 * fiber_cord_fd stays readable.
 * Errors: -EINVAL duration_ns < 0; -EPERM from another fiber, or inside a no-switch section; -EDEADLK duration_ns is
 * FIBER_FOREVER, and the wait could never end. Since: 0.1
 */
FIBERRT_API int fiber_cord_run(int64_t duration_ns) FIBERRT_LINKNAME(fiber_cord_run);

/**
 * By when fiber_cord_run must be called next if fiber_cord_fd does not become readable before: *out is a time of
 * fiber_now, FIBER_FOREVER if no deadline is near or far, 0 if there is something to run now. (fiber_cord_fd becomes
 * readable at that time by itself: this is for loops with timers of their own.)
 *
 * Where: the main flow (opens a cord). Switches: no.
 * Errors: -EINVAL out is NULL; -EPERM from another fiber. Since: 0.1
 */
FIBERRT_API int fiber_cord_next_deadline(int64_t *out) FIBERRT_LINKNAME(fiber_cord_next_deadline);

/* ------------------------------------------------------------------------------------------------------------------
 * Fiber-local values
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Makes a key under which every fiber of the process has a value of its own, NULL at first. When a fiber ends with a
 * value that is not NULL, destructor (which may be NULL) is called with it, on that fiber's stack, after its scopes are
 * closed, before its joiners wake, shielded from cancels; up to four rounds, if destructors set new values. The values
 * of a main flow are destroyed when its thread exits, in a no-switch section; not at the end of the process.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL out is NULL; -EAGAIN there are 128 keys already. Since: 0.1
 */
FIBERRT_API int fiber_key_create(fiber_key_t *out, void (*destructor)(void *)) FIBERRT_LINKNAME(fiber_key_create);

/**
 * fiber_key_create of an AMBIENT key: its value is something of the thread's that is to be each fiber's own: a signal
 * mask, a locale, the span of a tracer. (Not credentials: glibc changes those of all threads at once, and files are
 * also opened by threads that the library has started, with the rights of whoever needed them first.) Whenever a fiber
 * with another value goes on than the one
 * before, apply(old, now) is called, which makes it so; also at once when a fiber sets its own value. NULL is the value
 * of who has set none: what the thread had. When a fiber ends, apply(its value, NULL) comes before the destructor: old
 * is never one that is gone. It is called in a no-switch section, on whatever stack, and errno is kept. It may set
 * values of other keys, but not of its own (-EBUSY): it would be called within itself. Between fibers with equal values
 * nothing is called. A cord on which no ambient value was ever set pays nothing.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL out or apply is NULL; -EAGAIN as fiber_key_create. Since: 0.1
 */
FIBERRT_API int fiber_key_create_ambient(fiber_key_t *out, void (*destructor)(void *),
                                         void (*apply)(void *old, void *now))
    FIBERRT_LINKNAME(fiber_key_create_ambient);

/**
 * Deletes a key. Values still held under it are forgotten; their destructor is not called. Nor is apply, of an ambient
 * key: what is in force then stays so. Set its values to NULL first.
 *
 * Where: anywhere. Switches: no. Errors: those of a handle. Since: 0.1
 */
FIBERRT_API int fiber_key_delete(fiber_key_t key) FIBERRT_LINKNAME(fiber_key_delete);

/**
 * The calling fiber's value under a key; NULL if it has none or the key is not valid.
 *
 * Where: a fiber. Switches: no. Errors: none. Since: 0.1
 */
FIBERRT_API void *fiber_key_get(fiber_key_t key) FIBERRT_LINKNAME(fiber_key_get);

/**
 * Sets the calling fiber's value under a key. The old value is not destroyed.
 *
 * Where: a fiber. Switches: no.
 * Errors: -EBUSY apply of this ambient key is being called on the thread, be it further out; -ENOMEM; those of a
 * handle. Since: 0.1
 */
FIBERRT_API int fiber_key_set(fiber_key_t key, void *value) FIBERRT_LINKNAME(fiber_key_set);

/* ------------------------------------------------------------------------------------------------------------------
 * Locks and other things to wait for
 *
 * Locks and their like lie in memory of the caller's, of any storage class, and all zero bytes are a fresh one. Static
 * ones need nothing more; others are set by their initialiser (FIBER_MUTEX_INITIALIZER and its kind) or by memset. The
 * memory must live, and must not be moved, as long as a fiber or thread uses it: holds it, or is in a call about it
 * that has not returned.
 *
 * They are for fibers of any cord, and for threads without a cord, in any mixture. A fiber that waits gives its thread
 * to the others; a thread without a cord is blocked, and gets none by that. (In a simulation only the first thread may
 * wait: -ENOTSUP.) A cancel, an interrupt and a deadline end a wait early as they do any other, but for
 * fiber_mutex_lock; what has been granted by then counts: the call succeeds, and a cancel is seen by the next one. What
 * is granted to a fiber whose thread ends before it runs again goes to the next one. Where a call waits, who came first
 * is first.
 *
 * Calls with a timeout wait at most that many nanoseconds, and return -ETIMEDOUT; 0 tries once. In all else they are as
 * the call that they are named after, with its errors, and switch. The functions that end one (…_destroy) are for
 * finding mistakes; they free nothing, and need not be called. Their 0 does not mean that all calls about it have
 * returned.
 *
 * Where not said otherwise: Where: anywhere. Since: 0.1. Errors: -EINVAL a pointer is NULL, a timeout or a number of
 * permits is negative, or no permits are asked for or given.
 * --------------------------------------------------------------------------------------------------------------- */

/* Their members are the library's. */
typedef struct { uint64_t opaque[12]; } fiber_mutex_t;  /* a mutex */
typedef struct { uint64_t opaque[8]; } fiber_cond_t;    /* a condition */
typedef struct { uint64_t opaque[8]; } fiber_sem_t;     /* a semaphore */
typedef struct { uint64_t opaque[8]; } fiber_event_t;   /* an event */
typedef struct { uint64_t opaque[8]; } fiber_wg_t;      /* a wait group */
typedef struct { uint64_t opaque[12]; } fiber_rwlock_t; /* a read-write lock */
typedef struct { uint64_t opaque[16]; } fiber_once_t;   /* a call that is made once */
typedef struct { uint64_t opaque[8]; } fiber_barrier_t; /* a barrier */

/* Constant initialisers for static and other objects, in C99 and C++; they run no constructor. permits and count are
 * constants from 0 to INT64_MAX, of a barrier from 1; flags is 0 or a combination of FIBER_EVENT_*. */
#define FIBER_MUTEX_INITIALIZER {{0}}
#define FIBER_COND_INITIALIZER {{0}}
#define FIBER_RWLOCK_INITIALIZER {{0}}
#define FIBER_ONCE_INITIALIZER {{0}}
#define FIBER_SEM_INITIALIZER(permits) {{0, 0, (permits)}}
#define FIBER_EVENT_INITIALIZER(flags) {{0, ((flags) & UINT64_C(1)) << 32 | ((flags) & UINT64_C(2)) << 39}}
#define FIBER_WG_INITIALIZER(count) {{0, 0, (count)}}
#define FIBER_BARRIER_INITIALIZER(count) {{0, 0, (count)}}

/**
 * Locks a mutex; waits while somebody else holds it. Waiters get it in the order in which they came, but a newcomer may
 * get it before a waiter that has been waiting for less than a millisecond. (For a strict hand-over in the order of
 * arrival use a semaphore of one permit.) Cancels, interrupts and deadlines of scopes
 * neither keep it from locking nor end the wait. The holder is the fiber, or the thread, and only it can unlock.
 *
 * When the function of a holder has returned, or its thread has ended, without unlocking, whoever gets the lock next is
 * told -EOWNERDEAD, and so are all who were waiting then. They hold it, as if told 0, and should see to what it
 * protects; nothing else is to be done. (Nobody is told of a thread without a cord that locked its first while the C
 * library had no key for it, pthread_key_create, or no memory.)
 *
 * Switches: yes; a cancelled fiber may call it too.
 * Errors: -EOWNERDEAD a holder has died; the caller holds the lock. -EDEADLK the caller holds it already. -EPERM inside
 * a no-switch section.
 */
FIBERRT_API int fiber_mutex_lock(fiber_mutex_t *mutex) FIBERRT_LINKNAME(fiber_mutex_lock) FIBERRT_CHECK_RESULT;
/** fiber_mutex_lock that waits at most timeout_ns, and that cancels, interrupts and deadlines keep from locking.
 *  Switches: yes. */
FIBERRT_API int fiber_mutex_lock_timeout(fiber_mutex_t *mutex, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_mutex_lock_timeout) FIBERRT_CHECK_RESULT;
/** Locks a mutex if nobody holds it. Switches: no. Errors: -EBUSY somebody holds it, maybe the caller;
 *  -EOWNERDEAD as fiber_mutex_lock. */
FIBERRT_API int fiber_mutex_trylock(fiber_mutex_t *mutex) FIBERRT_LINKNAME(fiber_mutex_trylock) FIBERRT_CHECK_RESULT;
/** Unlocks a mutex. The next holder may free its memory at once. Switches: no. Errors: -EPERM the caller does not hold
 *  it. */
FIBERRT_API int fiber_mutex_unlock(fiber_mutex_t *mutex) FIBERRT_LINKNAME(fiber_mutex_unlock);
/** Ends a mutex. Switches: no. Errors: -EBUSY somebody holds it or waits for it. */
FIBERRT_API int fiber_mutex_destroy(fiber_mutex_t *mutex) FIBERRT_LINKNAME(fiber_mutex_destroy);

/**
 * Unlocks the mutex, waits until fiber_cond_signal or fiber_cond_broadcast reaches the caller, and locks the mutex
 * again. It is locked whatever is returned, except -EDEADLK. It returns 0 only when a signal has reached it. (A call
 * that a cancel, an interrupt or a deadline refuses unlocks the mutex only when it gives the others a turn.)
 *
 * Switches: yes. Errors: -EPERM the caller does not hold the mutex, or it is inside a no-switch section: nothing has
 * changed. -EOWNERDEAD a holder has died while the mutex was unlocked (a signal may have come or not, an interrupt or
 * the end of the time have ended the wait or not). -EDEADLK nothing could ever end the wait, or let the caller have the
 * mutex: fiber_mutex_unlock tells by -EPERM if it was the second.
 */
FIBERRT_API int fiber_cond_wait(fiber_cond_t *cond, fiber_mutex_t *mutex)
    FIBERRT_LINKNAME(fiber_cond_wait) FIBERRT_CHECK_RESULT;
/** fiber_cond_wait that waits at most timeout_ns for the signal; then for the mutex, however long that takes. */
FIBERRT_API int fiber_cond_wait_timeout(fiber_cond_t *cond, fiber_mutex_t *mutex, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_cond_wait_timeout) FIBERRT_CHECK_RESULT;
/** Ends the wait of the first waiter; does nothing if there is none. The mutex need not be held. Switches: no. */
FIBERRT_API int fiber_cond_signal(fiber_cond_t *cond) FIBERRT_LINKNAME(fiber_cond_signal);
/** Ends the waits of all who wait. Switches: no. */
FIBERRT_API int fiber_cond_broadcast(fiber_cond_t *cond) FIBERRT_LINKNAME(fiber_cond_broadcast);
/** Ends a condition. Switches: no. Errors: -EBUSY somebody waits for it. */
FIBERRT_API int fiber_cond_destroy(fiber_cond_t *cond) FIBERRT_LINKNAME(fiber_cond_destroy);

/** Makes a semaphore with so many permits; one of zero bytes has none. Nobody uses it yet. Switches: no. */
FIBERRT_API int fiber_sem_init(fiber_sem_t *sem, int64_t permits) FIBERRT_LINKNAME(fiber_sem_init);
/**
 * Takes n permits at once, and waits until it can. Requests are granted in their order: a large one is not overtaken by
 * smaller ones that could be granted.
 *
 * Switches: yes.
 */
FIBERRT_API int fiber_sem_wait(fiber_sem_t *sem, int64_t n) FIBERRT_LINKNAME(fiber_sem_wait) FIBERRT_CHECK_RESULT;
/** fiber_sem_wait that waits at most timeout_ns. */
FIBERRT_API int fiber_sem_wait_timeout(fiber_sem_t *sem, int64_t n, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_sem_wait_timeout) FIBERRT_CHECK_RESULT;
/** Takes n permits if there are and nobody waits. Switches: no. Errors: -EAGAIN there are fewer, or somebody waits. */
FIBERRT_API int fiber_sem_trywait(fiber_sem_t *sem, int64_t n) FIBERRT_LINKNAME(fiber_sem_trywait) FIBERRT_CHECK_RESULT;
/** Gives n permits. Switches: no. Errors: -EOVERFLOW there would be more than INT64_MAX; nothing was given. */
FIBERRT_API int fiber_sem_post(fiber_sem_t *sem, int64_t n) FIBERRT_LINKNAME(fiber_sem_post);
/** How many permits there are at the moment. Switches: no. */
FIBERRT_API int64_t fiber_sem_value(fiber_sem_t *sem) FIBERRT_LINKNAME(fiber_sem_value);
/** Ends a semaphore. Switches: no. Errors: -EBUSY somebody waits for it. */
FIBERRT_API int fiber_sem_destroy(fiber_sem_t *sem) FIBERRT_LINKNAME(fiber_sem_destroy);

/* Flags of fiber_event_init. */
#define FIBER_EVENT_MANUAL 1u /* it stays set until fiber_event_reset, for all */
#define FIBER_EVENT_SET 2u    /* it is set from the beginning */

/** Makes an event; one of zero bytes is not set, and not manual: a wait that it ends resets it. Nobody uses it yet.
 *  flags: FIBER_EVENT_*. Switches: no. Errors: -EINVAL other flags. */
FIBERRT_API int fiber_event_init(fiber_event_t *event, unsigned flags) FIBERRT_LINKNAME(fiber_event_init);
/** Waits until an event is set, and resets it if it is not manual. Switches: yes. */
FIBERRT_API int fiber_event_wait(fiber_event_t *event) FIBERRT_LINKNAME(fiber_event_wait) FIBERRT_CHECK_RESULT;
/** fiber_event_wait that waits at most timeout_ns. */
FIBERRT_API int fiber_event_wait_timeout(fiber_event_t *event, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_event_wait_timeout) FIBERRT_CHECK_RESULT;
/** Sets an event: all who wait at a manual one go on; at another the first one, or if there is none the next to come.
 *  To set one that is set does nothing. Switches: no. */
FIBERRT_API int fiber_event_set(fiber_event_t *event) FIBERRT_LINKNAME(fiber_event_set);
/** Resets an event. 1: it was set, 0: it was not. Switches: no. */
FIBERRT_API int fiber_event_reset(fiber_event_t *event) FIBERRT_LINKNAME(fiber_event_reset);
/** 1: it is set at the moment, 0: it is not. Switches: no. */
FIBERRT_API int fiber_event_is_set(fiber_event_t *event) FIBERRT_LINKNAME(fiber_event_is_set);
/** Ends an event. Switches: no. Errors: -EBUSY somebody waits for it. */
FIBERRT_API int fiber_event_destroy(fiber_event_t *event) FIBERRT_LINKNAME(fiber_event_destroy);

/** Adds n, which may be negative, to the count of a wait group; who waits goes on when it becomes 0. Switches: no.
 *  Errors: -EINVAL the count would be below 0; -EOVERFLOW the count would be above INT64_MAX; nothing was added. */
FIBERRT_API int fiber_wg_add(fiber_wg_t *group, int64_t n) FIBERRT_LINKNAME(fiber_wg_add);
/** Takes one from the count of a wait group: fiber_wg_add of -1, with its errors. Returns 1 if the count is 0 then, and
 *  else 0. Switches: no. */
FIBERRT_API int fiber_wg_done(fiber_wg_t *group) FIBERRT_LINKNAME(fiber_wg_done);
/** Waits until the count is 0. Switches: yes. */
FIBERRT_API int fiber_wg_wait(fiber_wg_t *group) FIBERRT_LINKNAME(fiber_wg_wait) FIBERRT_CHECK_RESULT;
/** fiber_wg_wait that waits at most timeout_ns. */
FIBERRT_API int fiber_wg_wait_timeout(fiber_wg_t *group, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_wg_wait_timeout) FIBERRT_CHECK_RESULT;
/** Ends a wait group. Switches: no. Errors: -EBUSY somebody waits for it. */
FIBERRT_API int fiber_wg_destroy(fiber_wg_t *group) FIBERRT_LINKNAME(fiber_wg_destroy);

/**
 * Locks for reading, which others may do at the same time; waits while somebody holds it for writing, or has been
 * waiting to. So a fiber that reads must not lock it for reading again: that may wait for a writer, which waits for the
 * fiber.
 *
 * Nobody is told of the death of a holder: the lock stays held for ever.
 *
 * Switches: yes. Errors: -EDEADLK the caller holds it for writing.
 */
FIBERRT_API int fiber_rwlock_rdlock(fiber_rwlock_t *rwlock) FIBERRT_LINKNAME(fiber_rwlock_rdlock) FIBERRT_CHECK_RESULT;
/** Locks for writing; waits while anybody holds it. Switches: yes. Errors: -EDEADLK the caller holds it for writing. */
FIBERRT_API int fiber_rwlock_wrlock(fiber_rwlock_t *rwlock) FIBERRT_LINKNAME(fiber_rwlock_wrlock) FIBERRT_CHECK_RESULT;
/** fiber_rwlock_rdlock that waits at most timeout_ns. */
FIBERRT_API int fiber_rwlock_rdlock_timeout(fiber_rwlock_t *rwlock, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_rwlock_rdlock_timeout) FIBERRT_CHECK_RESULT;
/** fiber_rwlock_wrlock that waits at most timeout_ns. */
FIBERRT_API int fiber_rwlock_wrlock_timeout(fiber_rwlock_t *rwlock, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_rwlock_wrlock_timeout) FIBERRT_CHECK_RESULT;
/** Locks for reading if that needs no wait. Switches: no. Errors: -EBUSY it would have to wait. */
FIBERRT_API int fiber_rwlock_tryrdlock(fiber_rwlock_t *rwlock)
    FIBERRT_LINKNAME(fiber_rwlock_tryrdlock) FIBERRT_CHECK_RESULT;
/** Locks for writing if that needs no wait. Switches: no. Errors: -EBUSY it would have to wait. */
FIBERRT_API int fiber_rwlock_trywrlock(fiber_rwlock_t *rwlock)
    FIBERRT_LINKNAME(fiber_rwlock_trywrlock) FIBERRT_CHECK_RESULT;
/** Unlocks what the caller has locked, for reading or writing. Switches: no. Errors: -EPERM another holds it for
 *  writing, or nobody holds it. (Who holds it for reading is not known.) */
FIBERRT_API int fiber_rwlock_unlock(fiber_rwlock_t *rwlock) FIBERRT_LINKNAME(fiber_rwlock_unlock);
/** Ends a read-write lock. Switches: no. Errors: -EBUSY somebody holds it or waits for it. */
FIBERRT_API int fiber_rwlock_destroy(fiber_rwlock_t *rwlock) FIBERRT_LINKNAME(fiber_rwlock_destroy);

/**
 * Calls fn(arg) if no call of fiber_once with this once has done so with success, that is, with 0 as the result; waits
 * while another does. What fn returns if it is not 0, -ECANCELED for example, is the result of this call, and the next
 * caller, or the first who waits, calls its own fn. The same if the fiber that calls fn ends in it.
 *
 * Switches: yes, unless it was done before. Errors: -EDEADLK fn calls it for the same once.
 */
FIBERRT_API int fiber_once(fiber_once_t *once, int (*fn)(void *), void *arg)
    FIBERRT_LINKNAME(fiber_once) FIBERRT_CHECK_RESULT;

/** Makes a barrier for rounds of count callers. No caller uses the barrier yet. A barrier of zero bytes must be made by
 *  this function before its first wait. Switches: no. Errors: -EINVAL count is not above 0. */
FIBERRT_API int fiber_barrier_init(fiber_barrier_t *barrier, int64_t count) FIBERRT_LINKNAME(fiber_barrier_init);
/**
 * Waits until as many callers have arrived as the barrier counts. Then all of them go on, and the next round begins.
 * Returns 1 in the caller that arrived last, and 0 in the others.
 *
 * A call that returns an error has not arrived: the round needs another caller in its place. What a caller did before it
 * arrived is seen by every caller of the round after its wait.
 *
 * Switches: yes. Errors: -EINVAL the barrier was not initialised.
 */
FIBERRT_API int fiber_barrier_wait(fiber_barrier_t *barrier) FIBERRT_LINKNAME(fiber_barrier_wait) FIBERRT_CHECK_RESULT;
/** fiber_barrier_wait that waits at most timeout_ns. With 0 it succeeds only if the caller is the last to arrive. */
FIBERRT_API int fiber_barrier_wait_timeout(fiber_barrier_t *barrier, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_barrier_wait_timeout) FIBERRT_CHECK_RESULT;
/** Ends a barrier. Switches: no. Errors: -EBUSY a caller waits at it. */
FIBERRT_API int fiber_barrier_destroy(fiber_barrier_t *barrier) FIBERRT_LINKNAME(fiber_barrier_destroy);

/* ------------------------------------------------------------------------------------------------------------------
 * Channels
 *
 * Queues of items of one size, which are copied in and out, between fibers of any cord and threads without a cord, as
 * many as like on either side. What "Locks and other things to wait for" says of waiting and timeouts holds here too.
 * One that a fiber alone receives from is its mailbox: examples/mailbox.c.
 *
 * All of them: Where: anywhere. Since: 0.1. Errors: those of a handle; -EINVAL a pointer is NULL or a timeout negative.
 * --------------------------------------------------------------------------------------------------------------- */

/* The largest item, in bytes. Of larger ones send pointers. */
#define FIBER_CHAN_ITEM_MAX 4096

/**
 * Makes a channel that holds up to capacity items of item_size bytes. With capacity 0 a send waits until a receiver has
 * the item. It lives until fiber_chan_destroy. Switches: no.
 * Errors: -EINVAL item_size is 0 or above FIBER_CHAN_ITEM_MAX; -ENOMEM; -EAGAIN there are 1,048,576 channels already.
 */
FIBERRT_API int fiber_chan_create(fiber_chan_t *out, size_t item_size, size_t capacity)
    FIBERRT_LINKNAME(fiber_chan_create);
/** Ends a channel; items that are left in it are dropped. Switches: no. Errors: -EBUSY somebody waits in it: close it,
 *  and let them go on. */
FIBERRT_API int fiber_chan_destroy(fiber_chan_t chan) FIBERRT_LINKNAME(fiber_chan_destroy);
/** Closes a channel: sends fail from now on, and receives when what it holds has been received; who waits in it is told
 *  so at once. Items of senders that wait are not sent. Switches: no. Errors: -EPIPE it is closed already. */
FIBERRT_API int fiber_chan_close(fiber_chan_t chan) FIBERRT_LINKNAME(fiber_chan_close);
/** How many items it holds at the moment. Switches: no. */
FIBERRT_API int64_t fiber_chan_count(fiber_chan_t chan) FIBERRT_LINKNAME(fiber_chan_count);
/** How many items it can hold, as fiber_chan_create was told. Switches: no. */
FIBERRT_API int64_t fiber_chan_capacity(fiber_chan_t chan) FIBERRT_LINKNAME(fiber_chan_capacity);
/** Tells whether a channel is closed: 1 or 0. A closed channel may still hold items. Switches: no. */
FIBERRT_API int fiber_chan_is_closed(fiber_chan_t chan) FIBERRT_LINKNAME(fiber_chan_is_closed);
/** Sends the item that item points to; waits for room, or if it holds none for a receiver. The item is copied before
 *  the call returns 0, and not sent if it returns anything else. Switches: yes. Errors: -EPIPE the channel is
 *  closed. */
FIBERRT_API int fiber_chan_send(fiber_chan_t chan, const void *item)
    FIBERRT_LINKNAME(fiber_chan_send) FIBERRT_CHECK_RESULT;
/** Receives the oldest item into the memory that item points to; waits for one. An item that was given to a fiber whose
 *  thread ended before it went on is received instead by who comes next, whatever was sent or received since; several
 *  such ones in any order. Switches: yes. Errors: -EPIPE the channel is closed and empty. */
FIBERRT_API int fiber_chan_recv(fiber_chan_t chan, void *item) FIBERRT_LINKNAME(fiber_chan_recv) FIBERRT_CHECK_RESULT;
/** fiber_chan_send that waits at most timeout_ns. */
FIBERRT_API int fiber_chan_send_timeout(fiber_chan_t chan, const void *item, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_chan_send_timeout) FIBERRT_CHECK_RESULT;
/** fiber_chan_recv that waits at most timeout_ns. */
FIBERRT_API int fiber_chan_recv_timeout(fiber_chan_t chan, void *item, int64_t timeout_ns)
    FIBERRT_LINKNAME(fiber_chan_recv_timeout) FIBERRT_CHECK_RESULT;
/** Sends an item if that needs no wait. Switches: no. Errors: -EAGAIN it would have to wait; -EPIPE the channel
 *  is closed. */
FIBERRT_API int fiber_chan_try_send(fiber_chan_t chan, const void *item) FIBERRT_LINKNAME(fiber_chan_try_send);
/** Receives an item if there is one, or a sender waits. Switches: no. Errors: -EAGAIN there is none; -EPIPE the
 *  channel is closed and empty. */
FIBERRT_API int fiber_chan_try_recv(fiber_chan_t chan, void *item)
    FIBERRT_LINKNAME(fiber_chan_try_recv) FIBERRT_CHECK_RESULT;

/* ------------------------------------------------------------------------------------------------------------------
 * Select
 * --------------------------------------------------------------------------------------------------------------- */

/* One thing to wait for. */
typedef struct {
    int32_t kind;        /* FIBER_CASE_… */
    int32_t fd;          /* FD: the descriptor */
    fiber_chan_t chan;   /* SEND, RECV */
    void *item;          /* SEND: what to send, which is only read; RECV: where to receive to */
    void *object;        /* EVENT: fiber_event_t *, SEM: fiber_sem_t * */
    int64_t number;      /* SEM: permits, at least 1; TIMER: nanoseconds from the call on; FD: events of poll(2);
                          * SCOPE, set if it is the one and its result is 1: what the child returned */
    fiber_t fiber;       /* JOIN; SCOPE, set as number is: the child */
    fiber_scope_t scope; /* SCOPE */
    void *value;         /* JOIN, set if it is the one and its result is 0: the fiber's result */
    int64_t result;      /* set if it is the one: what the call of its own would have returned, for TIMER 0 */
} fiber_case_t;

#define FIBER_CASE_NONE 0  /* never happens */
#define FIBER_CASE_SEND 1  /* fiber_chan_send */
#define FIBER_CASE_RECV 2  /* fiber_chan_recv */
#define FIBER_CASE_EVENT 3 /* fiber_event_wait */
#define FIBER_CASE_SEM 4   /* fiber_sem_wait */
#define FIBER_CASE_TIMER 5 /* as many nanoseconds as number says have passed */
#define FIBER_CASE_JOIN 6  /* fiber_join */
#define FIBER_CASE_FD 7    /* fiber_poll_fd */
#define FIBER_CASE_SCOPE 8 /* fiber_scope_next */

/* The most cases of one call. */
#define FIBER_SELECT_MAX 1024

/**
 * Waits at most timeout_ns until one of several calls need not wait, and makes that one; the others have not been made:
 * nothing was sent, received or taken by them. Returns its index. Of several that could be made at once, each gets its
 * turn to be tried first. A call that fails at once counts as one that need not wait: -EPIPE of a closed channel is the
 * result of its case. So is 0 of a scope whose children have all been told. Of no case, or of FIBER_CASE_NONE alone,
 * the end never comes, or that of the timeout.
 * A SEM that did not win keeps its place before the semaphore's later waiters until this call returns: those wait till
 * then, also for permits that there are.
 *
 * Up to 8 cases need no memory but for a fiber per descriptor while it waits; the result of an FD is -EAGAIN if there
 * is no stack for that. JOIN, FD and SCOPE are for fibers: the thread gets a cord. A fiber or a child of another cord
 * that has just ended may be told of a moment later, and is not by a select whose timeout is 0.
 *
 * The cases, and what they point to, are the caller's, and must live until the call returns.
 *
 * Where: anywhere. Switches: yes. Since: 0.1.
 * Errors: -ETIMEDOUT; -EINVAL cases is NULL though count is not 0, count is not in 0 … FIBER_SELECT_MAX, timeout_ns is
 * negative, or a case makes no sense; -ENOMEM.
 */
FIBERRT_API int fiber_select(fiber_case_t *cases, int count, int64_t timeout_ns) FIBERRT_LINKNAME(fiber_select);

/* ------------------------------------------------------------------------------------------------------------------
 * Input and output
 *
 * The POSIX calls of the same names, with their arguments and results, but that -E... is returned instead of errno set,
 * and that a call which would block parks the fiber instead of the thread; scopes bound them. They behave alike on
 * descriptors with and without O_NONBLOCK, and never change that flag. They take from the kernel what was asked for,
 * no more. Sockets never raise SIGPIPE. The memory handed to a call is the caller's again when the call has returned,
 * not before: also when it was cancelled. When a cancel, an interrupt, a deadline or fiber_close ends the wait, and the
 * descriptor is ready at that moment, the call tries once more and returns the result of that, on every backend. So
 * nothing that completed is lost, and the next call sees the cancel. (A completion after that moment may still be
 * returned, if the kernel is faster than the cancel.)
 *
 * docs/posix-calls.md lists when they return, next to the kernel's own calls. They differ in this:
 *   - SO_RCVTIMEO and SO_SNDTIMEO have no effect on these calls, as reading them would cost each wait a system call.
 *     Use the deadline of a scope.
 *   - SO_RCVLOWAT has an effect only while a call waits for readiness. A receive that need not wait returns the bytes
 *     that are there, however few, as reading the option would cost each receive a system call.
 *   - A send or write to a socket returns when some of the bytes are taken, as with O_NONBLOCK: so a call that is ended
 *     early never hides how many were sent.
 *   - A send that waits for room in a unix socket learns of a shutdown up to 256 ms later, as poll(2) does not tell of
 *     it. A tcp receive with MSG_PEEK and MSG_WAITALL looks for more at intervals of up to 16 ms, as the bytes that it
 *     has seen stay readable.
 *
 * All of them: Where: a fiber. Switches: yes. Since: 0.1. Errors, beside the POSIX ones:
 *   -ENOTSUP  there is no backend: neither is io_uring allowed to this process nor was the library built with libev, or
 *             FIBERRT_BACKEND names one that cannot be had here (see fiber_backend_name); or
 *             it is sim, and others could use the file too (docs/simulation.md);
 *   -EINVAL   FIBERRT_BACKEND names no backend that is known;
 *   -ENOMEM, -EMFILE, -ENFILE, -ENOSPC  no memory, no descriptor, or none of epoll's watches left (libev), for the
 *             backend at the thread's first operation; a later one tries again;
 *   -EBADF    the descriptor is closed, or was closed by fiber_close during the call;
 *   -EINVAL   a NULL pointer where memory is needed; a count above SSIZE_MAX. (Of counts above 2,147,479,552 bytes,
 *             that many are transferred at most, as by the kernel's own calls.)
 * Transfers at the position of a regular file by fibers of one thread follow one another, as in POSIX. Threads and
 * processes that share one position do not wait for each other: use positions of your own, O_APPEND or offsets there.
 * On io_uring, of the operations that block inside the kernel (opens of FIFOs and of slow file systems, writes to
 * terminals) at most 1,024 of a thread run at a time, or RLIMIT_NPROC; more wait for these. On libev, what may block
 * (files, opens, terminals) is done by threads of the library's own, of which the process has at most 32; they run with
 * all signals blocked and end when they have had nothing to do for some seconds. On either backend these threads also
 * read terminals in raw mode whose VMIN is not 1, and close sockets that linger: 32 peers that do not read keep all of
 * them busy for the time of SO_LINGER. Where no such thread may be made (RLIMIT_NPROC), the operation blocks the calling
 * thread. An open of a FIFO never does: on libev, and where the kernel may make fewer than 1,024 threads or none, it
 * looks for the other side at intervals of up to 16 ms. An open for writing may then miss a reader that comes and goes
 * between two looks.
 * A read of a terminal ends when read(2) would end, by lines or by VMIN and VTIME. If a cancel or a deadline ends it
 * after it has taken some bytes, it returns these bytes. A read of fewer bytes than VMIN, with VTIME 0, looks for them
 * at intervals of up to 16 ms, as the kernel gives no notice of them. A write to a pipe or a terminal may return when a
 * part is written, where write(2) without O_NONBLOCK would wait for the rest: call again for it.
 * On libev a descriptor that may block is asked whether it is ready before it is written or accepted from; so set
 * O_NONBLOCK on a blocking listener that other processes use at the same time, or do not share it. On libev the
 * library's own threads read terminals, other devices, inotify descriptors and the like without O_NONBLOCK once they are
 * ready; on io_uring they read terminals in raw mode whose VMIN is not 1. If another process, or a reader with
 * O_NONBLOCK, takes the bytes first, the library's thread waits for more, and until they come nothing ends the call, not
 * even fiber_close. The thread of the caller runs other fibers meanwhile. On io_uring, a cancel or a deadline may end
 * another read of a terminal 100 ms late, if a second reader takes the bytes at that moment.
 * A blocking socket has O_NONBLOCK set while its connect is begun. Threads of the library's own count for the -EDEADLK
 * of a main flow: once there was one, it waits on.
 * libev aborts the process when it gets no memory for what it keeps of loops and descriptors; it knows no other answer.
 * What it keeps of descriptors below 1,024 is made when a thread's backend is opened; it grows with higher numbers, and
 * with how many are ready at once.
 * A program for which that will not do runs on io_uring (FIBERRT_BACKEND=uring), where it is -ENOMEM.
 * On libev, to see whether a number fits into an eventfd, or what a path names, takes a descriptor: -EMFILE, -ENFILE.
 * fiber_close of a terminal or of a socket that lingers blocks the calling thread if there is none to spare, and
 * meanwhile other threads that begin an operation or close.
 * Ending a descriptor with plain close(2) while an operation on it is under way is undefined; use fiber_close.
 * --------------------------------------------------------------------------------------------------------------- */

/** Reads up to count bytes at the file's position. Returns the bytes read, 0 at the end. */
FIBERRT_API int64_t fiber_read(int fd, void *buffer, size_t count) FIBERRT_LINKNAME(fiber_read);
/** Writes up to count bytes at the file's position. Returns the bytes written. A pipe without a reader raises SIGPIPE
 *  as in POSIX; a socket does not. A write past RLIMIT_FSIZE returns -EFBIG. It raises SIGXFSZ only where the calling
 *  thread itself writes: on io_uring with O_DIRECT and on some file systems, on libev where no thread may be made.
 *  Ignore the signal, which else ends the process. */
FIBERRT_API int64_t fiber_write(int fd, const void *buffer, size_t count) FIBERRT_LINKNAME(fiber_write);
/** fiber_read into several buffers. The array and the buffers stay the caller's and must live until the call returns.
 *  Errors: -EINVAL count is outside 0 … 1,024. */
FIBERRT_API int64_t fiber_readv(int fd, const struct iovec *iov, int count) FIBERRT_LINKNAME(fiber_readv);
/** fiber_write from several buffers, of which the same holds. Errors: -EINVAL count is outside 0 … 1,024. */
FIBERRT_API int64_t fiber_writev(int fd, const struct iovec *iov, int count) FIBERRT_LINKNAME(fiber_writev);
/** Reads at an offset in bytes; the file's position stays. Returns the bytes read, 0 at the end. Errors: -EINVAL offset
 *  < 0; -ESPIPE it has no positions. */
FIBERRT_API int64_t fiber_pread(int fd, void *buffer, size_t count, int64_t offset) FIBERRT_LINKNAME(fiber_pread);
/** Writes at an offset in bytes; the file's position stays. Returns the bytes written. Errors: -EINVAL offset < 0;
 *  -ESPIPE it has no positions. */
FIBERRT_API int64_t fiber_pwrite(int fd, const void *buffer, size_t count, int64_t offset)
    FIBERRT_LINKNAME(fiber_pwrite);
/** Receives up to count bytes. flags as recv(2); MSG_DONTWAIT makes it return -EAGAIN instead of waiting. Returns the
 *  bytes received, of a stream 0 at the end. */
FIBERRT_API int64_t fiber_recv(int fd, void *buffer, size_t count, int flags) FIBERRT_LINKNAME(fiber_recv);
/** Sends up to count bytes. flags as send(2), MSG_NOSIGNAL is always added; MSG_DONTWAIT as in fiber_recv. Returns the
 *  bytes sent. */
FIBERRT_API int64_t fiber_send(int fd, const void *buffer, size_t count, int flags) FIBERRT_LINKNAME(fiber_send);
/** recvmsg(2): addresses, several buffers, ancillary data (descriptors received are the caller's to close). */
FIBERRT_API int64_t fiber_recvmsg(int fd, struct msghdr *message, int flags) FIBERRT_LINKNAME(fiber_recvmsg);
/** sendmsg(2), with MSG_NOSIGNAL added. */
FIBERRT_API int64_t fiber_sendmsg(int fd, const struct msghdr *message, int flags) FIBERRT_LINKNAME(fiber_sendmsg);
/** Receives as fiber_recv does, and tells the sender. If address is not NULL, the sender's address is written there, as
 *  far as *length bytes have room for it, and *length becomes its size; of a connection that is 0. Both are as before
 *  if the call fails. Errors: -EINVAL address is not NULL and length is, or *length is negative; -EFAULT length points
 *  to no memory; as fiber_recv. */
FIBERRT_API int64_t fiber_recvfrom(int fd, void *buffer, size_t count, int flags, struct sockaddr *address,
                                   socklen_t *length) FIBERRT_LINKNAME(fiber_recvfrom);
/** Sends as fiber_send does, to an address of length bytes; NULL: to the socket's peer. Errors: -EINVAL address is not
 *  NULL and length is 0, or larger than any address; as fiber_send. */
FIBERRT_API int64_t fiber_sendto(int fd, const void *buffer, size_t count, int flags, const struct sockaddr *address,
                                 socklen_t length) FIBERRT_LINKNAME(fiber_sendto);
/** Accepts one connection. Returns its descriptor, which is the caller's to close, without O_CLOEXEC as in POSIX. If
 *  the process has no free descriptor, fiber_accept returns -EMFILE at once, as accept(2) does. Unlike accept(2), it
 *  reserves no descriptor while it waits: if the last free one is used up meanwhile, it returns -EMFILE when a
 *  connection comes, and the connection stays for the next accept. */
FIBERRT_API int fiber_accept(int fd, struct sockaddr *address, socklen_t *length) FIBERRT_LINKNAME(fiber_accept);
/** fiber_accept with the flags of accept4(2): SOCK_NONBLOCK, SOCK_CLOEXEC. Errors: -EINVAL another flag. */
FIBERRT_API int fiber_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
    FIBERRT_LINKNAME(fiber_accept4);
/** Connects a socket and waits until it is connected or has failed. After -ECANCELED, -EINTR or -ETIMEDOUT of the
 *  caller the attempt may go on in the kernel: close the socket. */
FIBERRT_API int fiber_connect(int fd, const struct sockaddr *address, socklen_t length)
    FIBERRT_LINKNAME(fiber_connect);
/** Opens a file as open(2). mode counts with O_CREAT or O_TMPFILE. Returns a descriptor, the caller's to close. */
FIBERRT_API int fiber_open(const char *path, int flags, mode_t mode) FIBERRT_LINKNAME(fiber_open);
/** Closes a descriptor. Operations of other fibers on it, of any cord, end first, with -EBADF, unless they have
 *  completed; so none of them meets a descriptor that reuses the number. That waits until the threads of cords with
 *  such operations poll, and so does the end of the calling thread meanwhile: none of them must wait for that in turn.
 *  No deadline ends it. It needs no backend. Switches: yes; a cancelled fiber may call it too.
 *  Errors: -EBADF also if another fiber is just closing it. */
FIBERRT_API int fiber_close(int fd) FIBERRT_LINKNAME(fiber_close);
struct statx;
/** statx(2): what is known of a file. */
FIBERRT_API int fiber_statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *out)
    FIBERRT_LINKNAME(fiber_statx);
/** Waits until the data and the metadata of a file are on stable storage. */
FIBERRT_API int fiber_fsync(int fd) FIBERRT_LINKNAME(fiber_fsync);
/** Waits until the data of a file are on stable storage. */
FIBERRT_API int fiber_fdatasync(int fd) FIBERRT_LINKNAME(fiber_fdatasync);
/** Waits until a descriptor is ready for one of events (POLLIN, POLLOUT, … of poll(2)); returns those that hold, with
 *  POLLERR, POLLHUP where they apply. Files that cannot be polled are always ready. (On a connection whose peer has
 *  shut down its writing side, readiness for what was asked may be told up to 16 ms late, if POLLIN and POLLRDHUP were
 *  not asked for.) Errors: -EINVAL events is not positive, or is above 0xFFFF. */
FIBERRT_API int fiber_poll_fd(int fd, int events) FIBERRT_LINKNAME(fiber_poll_fd);

/* Names in the file system. A path that does not begin with '/' begins in the directory dirfd, or in the current one if
 * that is AT_FDCWD. What has begun to change the file system is not ended early: a cancelled call returns when it is
 * done, with its result; after an error of the caller's own (-ECANCELED, -EINTR, -ETIMEDOUT) nothing was done. */

struct open_how;
/** openat2(2): opens a file as how says (<linux/openat2.h>), of which the caller knows size bytes. Returns a
 *  descriptor, the caller's to close. Errors: -EINVAL size is less than 24; -E2BIG the kernel does not know all that
 *  how asks for;
 *  -ENOSYS before Linux 5.6. */
FIBERRT_API int fiber_openat2(int dirfd, const char *path, struct open_how *how, size_t size)
    FIBERRT_LINKNAME(fiber_openat2);
/** renameat2(2): gives a file another name. flags: RENAME_NOREPLACE, RENAME_EXCHANGE, … */
FIBERRT_API int fiber_renameat2(int old_dirfd, const char *old_path, int new_dirfd, const char *new_path, unsigned flags)
    FIBERRT_LINKNAME(fiber_renameat2);
/** rename(2): gives a file another name. What was called new_path before is replaced. */
FIBERRT_API int fiber_rename(const char *old_path, const char *new_path) FIBERRT_LINKNAME(fiber_rename);
/** unlinkat(2): removes a name. flags: AT_REMOVEDIR for that of an empty directory. */
FIBERRT_API int fiber_unlinkat(int dirfd, const char *path, int flags) FIBERRT_LINKNAME(fiber_unlinkat);
/** unlink(2): removes a name, and the file if it was the last. */
FIBERRT_API int fiber_unlink(const char *path) FIBERRT_LINKNAME(fiber_unlink);
/** rmdir(2): removes an empty directory. */
FIBERRT_API int fiber_rmdir(const char *path) FIBERRT_LINKNAME(fiber_rmdir);
/** mkdirat(2): makes a directory, whose permissions mode gives, less the umask. */
FIBERRT_API int fiber_mkdirat(int dirfd, const char *path, mode_t mode) FIBERRT_LINKNAME(fiber_mkdirat);
/** mkdir(2): makes a directory. */
FIBERRT_API int fiber_mkdir(const char *path, mode_t mode) FIBERRT_LINKNAME(fiber_mkdir);
/** getdents64(2): the next entries of a directory that was opened with O_DIRECTORY, as many as have room. Returns the
 *  bytes that they take in buffer, 0 at the end; each is a struct dirent64 (<dirent.h>), and the next lies d_reclen
 *  bytes behind it:
 *      while ((got = fiber_getdents64(fd, buffer, sizeof buffer)) > 0)
 *          for (char *at = buffer; at < buffer + got; at += ((struct dirent64 *)at)->d_reclen)
 *              use(((struct dirent64 *)at)->d_name);
 *  Align the buffer as that structure is; 32 KiB are a good size, 280 bytes enough for any entry. Entries that are made
 *  or removed meanwhile may come or not; each other one comes once. Fibers that read by one descriptor get different
 *  entries. lseek(fd, 0, SEEK_SET) begins anew. The system has no reading of directories that does not wait: threads of
 *  the library's own do it, with either backend. Errors: -EINVAL there is no room for the next entry; -ENOTDIR it is no
 *  directory; -ENOENT the directory has been removed. */
FIBERRT_API int64_t fiber_getdents64(int fd, void *buffer, size_t size) FIBERRT_LINKNAME(fiber_getdents64);

/* Data from one descriptor to another, without a copy of the program's own. Unlike fiber_write, these raise no SIGPIPE:
 * neither sockets nor pipes, but for what fiber_copy says. */

/** splice(2): moves up to count bytes between a pipe and something else, or between two pipes. The call adds the
 *  bytes moved to each offset; NULL means the file's own position, and is required for a file that has none. flags:
 *  SPLICE_F_MORE, …; SPLICE_F_NONBLOCK makes it return -EAGAIN instead of waiting. Returns the bytes moved, 0 at the
 *  end of fd_in. Into a socket or device without O_NONBLOCK it moves at most a page (4,096 bytes) at a time, as more
 *  could block the thread; into such a socket by a copy, for which it needs two descriptors.
 *  Errors: -EINVAL other flags, an offset below 0, neither is a pipe, fd_out was opened with O_APPEND, or one of the
 *  two cannot be spliced; -ESPIPE an offset of a pipe; -EPIPE nobody reads fd_out; -EMFILE, -ENFILE there are no two
 *  descriptors for the copy. */
FIBERRT_API int64_t fiber_splice(int fd_in, int64_t *offset_in, int fd_out, int64_t *offset_out, size_t count,
                                 unsigned flags) FIBERRT_LINKNAME(fiber_splice);

#define FIBER_COPY_ALL INT64_MAX /* as the limit: up to the end */

/**
 * Copies from fd_in to fd_out up to the end of fd_in, or limit bytes if they come first. Returns how many it has
 * written. In the kernel where that can be (copy_file_range, splice), else through a buffer of 128 KiB; a pipe between
 * the two holds up to 1 MiB. It does not close, shut down or sync anything. From sockets for messages it takes one
 * after the other, up to an empty one; of one that is longer than 128 KiB, or than what is left of the limit, the rest
 * is lost, and the call ends with -EMSGSIZE.
 *
 * Files with positions are copied from and to their positions, which it looks at when it begins and sets when it ends;
 * another transfer that moves the same position meanwhile is not noticed. A regular file may be copied into itself, up
 * to where its end was before, if what is read and what is written do not overlap. Of a device that is not checked.
 *
 * When it ends early - disk full, a connection reset, a cancel - it returns the error; *written says how many bytes
 * have been written all the same, and *lost how many have been taken from fd_in and are neither written nor to be had
 * again. Of a file with positions none are lost: its position stands behind the last byte that was written. Nor are any
 * into such a file by a cancel, an interrupt or a deadline: it writes what it has taken, which a disk lets it do, and
 * then returns. Into anything else it then writes what is taken at once. From one stream to another, up to 1 MiB may be
 * lost thus; a caller that must not lose them uses fiber_splice with its own pipe.
 *
 * From a pipe, a connection without O_NONBLOCK is written to in pieces of a page, which takes several times the
 * processor's time; from anything else, through the buffer.
 * Where the system cannot splice from fd_in (for example a terminal of an older kernel), or there is no descriptor for
 * the pipe, a pipe as fd_out without a reader raises SIGPIPE as in fiber_write.
 *
 * written, lost: NULL if they are not wanted.
 *
 * Where: a fiber. Switches: yes.
 * Errors: those of reading fd_in and writing fd_out, such as -ENOSPC, -EFBIG, -EPIPE, -ECONNRESET and -EISDIR;
 * -EINVAL limit is below 0, a regular file would be copied over what is read of it, or a pipe into itself;
 * -ENOMEM no memory for the buffer. No free descriptor for the pipe is no error. Since: 0.1
 */
FIBERRT_API int64_t fiber_copy(int fd_in, int fd_out, int64_t limit, int64_t *written, int64_t *lost)
    FIBERRT_LINKNAME(fiber_copy);

/* Descriptors through a unix socket, without the arithmetic of fiber_sendmsg and fiber_recvmsg. */

#define FIBER_FDS_MAX 253 /* descriptors that one message can carry */

/** Sends bytes, and with the first of them fd_count descriptors, which stay the caller's too. Returns the bytes sent:
 *  if that is less than count, which a stream may do, the descriptors have gone with these. Errors: -EINVAL fd_count is
 *  above FIBER_FDS_MAX, or there are descriptors and no byte to carry them; -EBADF also if one of fds is closed, and
 *  nothing is sent then; -ETOOMANYREFS too many are under way. */
FIBERRT_API int64_t fiber_send_fds(int fd, const void *buffer, size_t count, const int *fds, size_t fd_count)
    FIBERRT_LINKNAME(fiber_send_fds);
/** Receives up to count bytes, and the descriptors that came with them, which are the caller's to close and have
 *  O_CLOEXEC. *fd_count says how many have room in fds, and then how many have been put there. Of a stream, bytes that
 *  came with other descriptors are left for the next call. Returns the bytes received, 0 at the end. *flags, if flags
 *  is not NULL, is what recvmsg(2) tells: MSG_CTRUNC if some descriptors came for which there was no room, or no number
 *  left in this process (RLIMIT_NOFILE): these are closed; MSG_TRUNC if the rest of a datagram is lost. Errors: -EINVAL
 *  count is 0. */
FIBERRT_API int64_t fiber_recv_fds(int fd, void *buffer, size_t count, int *fds, size_t *fd_count, int *flags)
    FIBERRT_LINKNAME(fiber_recv_fds);

/* ------------------------------------------------------------------------------------------------------------------
 * Child processes
 *
 * A program is run as a child process, here with pipes to its input and from its output:
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
 * The library installs no handler, not for SIGCHLD either, and waits for no child that it is not asked to wait for. The
 * end of each is to be taken once: it is kept for whoever asks until then, unless the program ignores SIGCHLD. All of
 * this is not to be had in a simulation.
 * --------------------------------------------------------------------------------------------------------------- */

/* What fiber_process_attr_set_stream takes, beside descriptors. */
#define FIBER_PROCESS_INHERIT (-1) /* the program's own */
#define FIBER_PROCESS_PIPE (-2)    /* a pipe, whose other end fiber_process_spawn gives to the caller */
#define FIBER_PROCESS_NULL (-3)    /* /dev/null */
#define FIBER_PROCESS_STDOUT (-4)  /* of stream 2: the same as stream 1 */

/* The most descriptors that fiber_process_attr_add_fd can give a child, besides its standard streams. */
#define FIBER_PROCESS_FDS_MAX 64

/**
 * Makes an attribute object for processes, with the defaults: streams, environment, directory and process group are the
 * program's, no signal is blocked, the disposition of SIGPIPE is the default one. The caller owns *out and ends it with
 * fiber_process_attr_destroy; it may be used for any number of processes.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL out is NULL; -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_process_attr_create(fiber_process_attr_t **out) FIBERRT_LINKNAME(fiber_process_attr_create);

/**
 * Frees an attribute object. NULL is allowed and does nothing.
 *
 * Where: anywhere. Switches: no. Errors: none (returns 0). Since: 0.1
 */
FIBERRT_API int fiber_process_attr_destroy(fiber_process_attr_t *attr) FIBERRT_LINKNAME(fiber_process_attr_destroy);

/**
 * Says what one of the child's standard streams is (0 input, 1 output, 2 errors): one of FIBER_PROCESS_*, or a
 * descriptor, which stays the caller's and must be open when a process is spawned. The child gets a copy that is not
 * closed on exec, O_NONBLOCK or not as it is.
 *
 * Where: anywhere. Switches: no.
 * Errors: -EINVAL attr is NULL, stream is not 0, 1 or 2, source is neither a descriptor nor one of FIBER_PROCESS_*,
 * or is FIBER_PROCESS_STDOUT for another stream than 2. Since: 0.1
 */
FIBERRT_API int fiber_process_attr_set_stream(fiber_process_attr_t *attr, int stream, int source)
    FIBERRT_LINKNAME(fiber_process_attr_set_stream);

/**
 * Gives the child one more descriptor: a copy of source, which it has as fd and which is not closed on exec. source
 * stays the caller's and must be open when a process is spawned; it may be fd itself. If fd was added before, the later
 * source counts. The copies are made together: a source may have the number of another one's fd.
 *
 *     fiber_process_attr_add_fd(attr, 3, listener); // the child has the socket as its descriptor 3
 *
 * Where: anywhere. Switches: no.
 * Errors: -EINVAL attr is NULL, fd is below 3, or source below 0; -EMFILE there are FIBER_PROCESS_FDS_MAX already.
 * Since: 0.1
 */
FIBERRT_API int fiber_process_attr_add_fd(fiber_process_attr_t *attr, int fd, int source)
    FIBERRT_LINKNAME(fiber_process_attr_add_fd);

/**
 * Says whether the child begins a new session, as by setsid(2) (session is not 0), which has no terminal. It
 * then leads a process group too, as if that had been set to 0; a group above 0 makes fiber_process_spawn fail.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL. Since: 0.1
 */
FIBERRT_API int fiber_process_attr_set_session(fiber_process_attr_t *attr, int session)
    FIBERRT_LINKNAME(fiber_process_attr_set_session);

/**
 * Sets the environment: an array of "NAME=value" with NULL at its end, which is copied. NULL stands for the program's
 * own, as it is when a process is spawned.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL; -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_process_attr_set_environment(fiber_process_attr_t *attr, char *const environment[])
    FIBERRT_LINKNAME(fiber_process_attr_set_environment);

/**
 * Sets the directory in which the child begins; a relative file is looked for from there. The text is copied. NULL
 * stands for the program's own.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL; -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_process_attr_set_directory(fiber_process_attr_t *attr, const char *path)
    FIBERRT_LINKNAME(fiber_process_attr_set_directory);

/**
 * Sets the process group that the child joins; 0: a new one, which it leads, and to which fiber_process_wait then sends
 * its signals, so that they reach what the child has started in turn; -1: the program's.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr is NULL or group is below -1. Since: 0.1
 */
FIBERRT_API int fiber_process_attr_set_group(fiber_process_attr_t *attr, pid_t group)
    FIBERRT_LINKNAME(fiber_process_attr_set_group);

/**
 * Sets the signals that the child begins with blocked. By default there are none, whatever the calling thread blocks:
 * the library blocks signals on its threads, programs do for fiber_sigwait, and neither is the child's affair, which
 * might never hear of SIGTERM.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr or mask is NULL. Since: 0.1
 */
FIBERRT_API int fiber_process_attr_set_mask(fiber_process_attr_t *attr, const sigset_t *mask)
    FIBERRT_LINKNAME(fiber_process_attr_set_mask);

/**
 * Sets the signals whose dispositions are the default ones in the child. By default that is SIGPIPE, which programs
 * with pipes ignore. Of the others, as always with exec, those that the program ignores are ignored in the child, and
 * those that it handles are not handled; the library changes no disposition.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL attr or signals is NULL. Since: 0.1
 */
FIBERRT_API int fiber_process_attr_set_default_signals(fiber_process_attr_t *attr, const sigset_t *signals)
    FIBERRT_LINKNAME(fiber_process_attr_set_default_signals);

/**
 * Runs a program in a child process. file is its path, or, without a slash, a name that is looked for in the
 * directories of the program's PATH; argv its arguments from its name on, with NULL at the end. attr NULL means the
 * defaults. *pid is the child, whose end is to be taken by fiber_process_wait or fiber_waitpid.
 *
 * pipes (which may be NULL if no stream is a pipe) receives the caller's ends of the pipes, -1 for streams that are
 * none: pipes[0] to write the child's input, pipes[1] and pipes[2] to read what it puts out. They are the caller's to
 * close, and closed on exec. A write to a child that no longer reads raises SIGPIPE, as with every pipe: ignore that
 * (signal(SIGPIPE, SIG_IGN)), and fiber_write returns -EPIPE. Who both writes and reads does so in two fibers, or the
 * child and the program may wait for each other for ever.
 *
 * The child has all other descriptors of the program that are not closed on exec. The calling thread is blocked until
 * the program has been loaded, as by posix_spawn(3). If anything fails, there is no child and no descriptor more, and
 * *pid and pipes are as they were.
 *
 * Where: a fiber. Switches: no.
 * Errors: -EINVAL pid, file, argv or argv[0] is NULL, pipes is NULL and a stream is a pipe, or the attributes have both
 * a session and a process group above 0; -EBADF a stream, or the source of an added descriptor, is not open, or an
 * added descriptor is not below RLIMIT_NOFILE; -EMFILE, -ENFILE; -EAGAIN there may be no more processes; -ENOMEM;
 * -ENOENT there is no such program, or no such directory; -ENOTSUP in a simulation; those of execve(2), chdir(2) and
 * setpgid(2), such as -EACCES, -ENOEXEC and -E2BIG. Since: 0.1
 */
FIBERRT_API int fiber_process_spawn(pid_t *pid, int pipes[3], const fiber_process_attr_t *attr, const char *file,
                                    char *const argv[]) FIBERRT_LINKNAME(fiber_process_spawn);

/**
 * Waits until a child process has ended, and ends it when the caller is not to wait any longer: if the caller is
 * cancelled or the deadline of a scope of its fires, before the call or during it, the child is sent SIGTERM and
 * SIGCONT, and SIGKILL if it has not ended grace_ns nanoseconds later; with a grace of 0 SIGKILL alone, with
 * FIBER_FOREVER no SIGKILL. A child that leads a process group has the whole group sent these. In each case the call
 * returns only when the end has been taken, which may take longer than the grace where the kernel cannot end a process
 * at once; nothing ends it earlier. *status (status may be NULL) is then as waitpid(2) says.
 *
 * Where: a fiber. Switches: yes; a cancelled fiber may call it too.
 * Errors: -ECANCELED, -ETIMEDOUT as everywhere, and the child has ended, in whatever way: *status tells; -EINTR the
 * caller was interrupted: the child lives on, as if there had been no call; -EACCES the child may not be sent signals,
 * as it has changed its user: it lives on; -EINVAL pid or grace_ns is wrong; -ECHILD as fiber_waitpid; -ENOTSUP in a
 * simulation. Since: 0.1
 */
FIBERRT_API int fiber_process_wait(pid_t pid, int *status, int64_t grace_ns) FIBERRT_LINKNAME(fiber_process_wait);

/**
 * Waits until a child process has ended, and takes its end: returns pid, and in *status (which may be NULL) what
 * waitpid(2) says. It may be a child of any thread's, spawned by whatever means. With WNOHANG it does not wait, and
 * returns 0 if the child lives. A child that is stopped has not ended.
 *
 * Of several fibers, or threads in waitpid(2), that wait for one child, one is told, and the others get -ECHILD. If the
 * wait is ended early, the end stays to be taken.
 *
 * It waits by a descriptor of the process (pidfd_open). Where there is none to be had - no descriptor is left, or an
 * emulator lacks that call - it looks at growing intervals, of up to 16 ms.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EINVAL pid is not above 0 (which of several children has ended is told with SIGCHLD alone, and that is the
 * program's), or options is neither 0 nor WNOHANG; -ECHILD there is no such child: it is not one of this process, its
 * end has been taken, also during the call, or the program ignores SIGCHLD and it has ended; -ENOTSUP in a simulation.
 * Since: 0.1
 */
FIBERRT_API int fiber_waitpid(pid_t pid, int *status, int options) FIBERRT_LINKNAME(fiber_waitpid);

/* ------------------------------------------------------------------------------------------------------------------
 * Signals
 *
 * Signals are blocked, and waited for by fibers:
 *
 *     sigset_t signals;
 *     sigemptyset(&signals);
 *     sigaddset(&signals, SIGINT);
 *     sigaddset(&signals, SIGTERM);
 *     pthread_sigmask(SIG_BLOCK, &signals, NULL); // at the beginning of main, before there are other threads
 *     while (fiber_sigwait(&signals, NULL) > 0) shut_down(); // in a fiber; it may do all that fibers may
 *
 * Nothing is installed: blocked signals stay pending in the kernel until somebody waits for them. Threads that the
 * library starts - cords, workers, those for operations that block - begin with all signals blocked but those that an
 * instruction raises (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS); a cord's function may unblock some.
 * --------------------------------------------------------------------------------------------------------------- */

struct signalfd_siginfo;
/**
 * Waits for one of the signals of a set, takes it, and returns its number. *info (of <sys/signalfd.h>; info may be
 * NULL) tells who sent it and what came with it. Signals that were sent to the process are for whichever of all waiting
 * fibers comes first, on any cord; those that were sent to a thread are for fibers of that thread alone. Each is taken
 * once; if the wait ends early, what has come stays pending.
 *
 * Each signal of the set must be blocked on the calling thread, and should be on all others, as those would take it;
 * SIGKILL and SIGSTOP in it are passed over. One that the program ignores is pending too, as long as it is blocked.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EINVAL set is NULL or holds nothing that could come, or a signal of it is not blocked on the calling thread;
 * -EMFILE, -ENFILE, -ENOMEM it needs a descriptor while it waits; -ENOTSUP there is no backend, or in a simulation.
 * Since: 0.1
 */
FIBERRT_API int fiber_sigwait(const sigset_t *set, struct signalfd_siginfo *info) FIBERRT_LINKNAME(fiber_sigwait);

/* ------------------------------------------------------------------------------------------------------------------
 * Blocking code and names
 *
 * What can only block - a database that is a library, a name server asked by the C library, compressors, code of
 * others - is called on threads that are there for that: one pool for the process, which grows when it is needed,
 * reuses its threads, and ends those that had nothing to do for some seconds. The thread of the calling fiber goes on
 * with others.
 *
 *     static int64_t find(void *arg) { return sqlite3_step(arg); }
 *
 *     int64_t answer;
 *     int error = fiber_offload(find, statement, &answer);
 *
 * The function runs on a stack as the program's other threads have it, with signals blocked as on cords, and leaves the
 * thread as it has found it: no locks held, no signals unblocked. It must not call pthread_exit, nor let an exception
 * out. It may call this library, on whose clock, semaphores, channels and so on it waits as any thread does; what it
 * calls may open a cord, whose main flow it is then, and which ends with the function as it would with a thread: fibers
 * that it has made there and not waited for never run again. If it offloads a function itself, that is called at once,
 * right there, and so cannot wait for a thread. At most 64 functions run at once (fiber_offload_set_limit), in the
 * whole process; more wait for these, in the order in which they came. So functions that wait for each other must not
 * be more than that. What the library does for itself on such threads (see "Input and output") does not wait for them.
 * A cord does not end, and a thread with a cord does not exit, before the functions that its fibers have offloaded have
 * returned, but for detached ones. Returning from main, or exit(), waits for none. In a simulation the function is
 * called on the one thread there is, in a no-switch section of the calling fiber and on its stack, at a time that the
 * seed picks; nothing else runs meanwhile.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Calls fn(arg) on another thread and waits for its end. *result (result may be NULL) is what it returned. A wait that
 * would end early (cancel, interrupt, deadline) does so as long as fn has not begun, which then never runs. Once it
 * runs it is waited for: the call returns 0 with its result, and the next one sees the cancel. So what arg points to
 * may lie on the caller's stack. After an error fn has not run.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EINVAL fn is NULL; -EAGAIN there is no thread for it, and none could be made (if there are some, it waits
 * for these). Since: 0.1
 */
FIBERRT_API int fiber_offload(int64_t (*fn)(void *), void *arg, int64_t *result)
    FIBERRT_LINKNAME(fiber_offload) FIBERRT_CHECK_RESULT;

/**
 * fiber_offload for functions that may take longer than anybody wants to wait: a wait that ends early does so at once,
 * and fn, if it has begun, goes on without the caller. Its result is lost then.
 *
 * free_arg(arg) is called exactly once (free_arg may be NULL: nothing is), when neither fn nor this call has to do
 * with arg any more, whatever the call returns but -EINVAL: by the calling fiber, before the call returns, if fn has
 * returned by then or will never run; else on fn's thread, when fn has returned. (A fiber whose thread exits in this
 * call never runs again; then the exiting thread calls it.) It must not block, nor switch. What fn leaves for the
 * caller beside its result must therefore be kept alive by the caller: arg may hold two references, of which free_arg
 * drops one.
 *
 * Where: a fiber. Switches: yes. Errors: as fiber_offload; -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_offload_detached(int64_t (*fn)(void *), void *arg, void (*free_arg)(void *), int64_t *result)
    FIBERRT_LINKNAME(fiber_offload_detached) FIBERRT_CHECK_RESULT;

/**
 * Sets how many offloaded functions run at once in the process: 1 … 1,024; 64 without this. Those that run already go
 * on when it is lowered below their number.
 *
 * Where: anywhere (opens no cord). Switches: no. Errors: -EINVAL threads is not in 1 … 1,024. Since: 0.1
 */
FIBERRT_API int fiber_offload_set_limit(int threads) FIBERRT_LINKNAME(fiber_offload_set_limit);

struct addrinfo;
/**
 * getaddrinfo(3), with its arguments: the addresses of a name, as the C library finds them. It runs as a detached
 * offloaded function: a wait that ends early does so at once, while the C library goes on to ask its name servers, and
 * keeps its place among the offloaded functions that run at once (fiber_offload_set_limit) until it has done with that.
 * What needs no look-up, since both node and service are written in numbers or are NULL, is answered at once, without
 * another thread (but for AI_IDN and AI_CANONIDN). The texts and hints are copied. *out is the caller's, who frees it
 * by freeaddrinfo(3); NULL after an error.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EINVAL out, or both node and service are NULL, or EAI_BADFLAGS; -ENOENT there is no such name or service
 * (EAI_NONAME, EAI_SERVICE); -ENODATA the name has no address, or none of that family (EAI_NODATA, EAI_ADDRFAMILY);
 * -EAGAIN the name servers have not answered (EAI_AGAIN), or no thread could be made: later it may work; -EMFILE,
 * -ENFILE there was no descriptor for the files and sockets that could have told; -EIO they refuse (EAI_FAIL), or any
 * other error; -EOVERFLOW a text is too long (EAI_OVERFLOW); -EAFNOSUPPORT, -ESOCKTNOSUPPORT the hints ask for what
 * there is not; -ENOMEM;
 * of EAI_SYSTEM that errno, or -EAGAIN if that would speak of the caller; -ENOTSUP in a simulation, of what is not
 * written in numbers. Since: 0.1
 */
FIBERRT_API int fiber_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                                  struct addrinfo **out) FIBERRT_LINKNAME(fiber_getaddrinfo);

/**
 * Connects a stream to an address that is given as text: "host:port", "[host]:port", "unix:path" or "unix:@name". host
 * is a name or a numeric address, an IPv6 address only in brackets; port is a number or a service's name. What follows
 * "unix:" is the path of a unix socket, from the current directory on if it does not begin with '/'; or behind '@' a
 * name of Linux's abstract namespace, which has no file. (A file "@x" is "./@x"; a host that is called unix goes in
 * brackets.) Returns the connected descriptor, the caller's to close. flags are those of fiber_accept4, for the
 * descriptor: SOCK_CLOEXEC, SOCK_NONBLOCK.
 *
 * Of a name with several addresses, the first attempt to connect begins at once, and the next one, of the other family
 * if there is one left, when 250 ms have passed or an attempt has failed; the first that succeeds ends the others,
 * whose descriptors are closed (RFC 8305). So an address that never answers costs a quarter of a second. The attempts
 * are fibers of the calling cord, and have ended when the call returns.
 *
 * Nothing but the kernel limits how long an attempt takes (some two minutes): use a scope.
 *
 * Where: a fiber. Switches: yes.
 * Errors: -EINVAL address is NULL or none of these, the port is not in 1 … 65,535, or an unknown flag; -ENAMETOOLONG
 * the host has more than 255 bytes, the path or '@' and name more than 107; those of fiber_getaddrinfo, which asks for
 * the name; those of socket(2) and fiber_connect, and with several addresses of fiber_scope_spawn; of several attempts
 * the first's that says something about the other side (-ECONNREFUSED before -ENETUNREACH); -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_dial(const char *address, int flags) FIBERRT_LINKNAME(fiber_dial);

/* ------------------------------------------------------------------------------------------------------------------
 * Hooks
 *
 * What another runtime keeps per thread - an interpreter's frame, a tracer's context - can be made per fiber: it is
 * told when a fiber gives its thread to another. Hooks are of one cord, and set by its thread. A fiber that they are
 * about has a TAG: a kind, from 1 to FIBER_TAG_KIND_MAX, by which several users of one cord tell theirs apart, and a
 * pointer. Switches between fibers without a tag are not told. A cord without hooks pays nothing for all this.
 *
 *     before_switch  the calling fiber is about to be left for another; not when it has ended
 *     after_switch   the other one is the calling fiber now; from is no tag if the one before has ended. Both are
 *                    called on the stack that is left
 *     start          on the fiber's own stack, before its function is called
 *     exit           on the fiber's own stack, when all else of its end has been done, its key's destructors included
 *     destroy        the fiber is gone: its handle is stale when this returns. Once for each fiber with a tag, also if
 *                    it never ran, or its thread exits with it; before its memory may be anybody else's
 *     before_poll    the thread is about to sleep: after a look at what is there has found nothing
 *     after_poll     it has slept. -EINTR interrupts the cord's main flow, as fiber_interrupt with NULL; else 0
 *
 * Each may be NULL. They are called in a no-switch section, and keep errno. The fiber of destroy counts as detached;
 * those of a thread that exits are told of when no fiber can be made there any more (-EPIPE). A hosted fiber's turn is
 * a switch from and to a fiber without a tag.
 * --------------------------------------------------------------------------------------------------------------- */

#define FIBER_TAG_KIND_MAX 255u /* the largest kind of a tag */

/* A tag, by which hooks know a fiber. */
typedef struct {
    void *pointer;
    unsigned kind; /* 0: there is no tag, and pointer is NULL */
} fiber_tag_t;

/* The hooks of a cord: when each is called, "Hooks" says. */
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
 * Sets the hooks of the calling thread's cord, in the place of those that it had; NULL: it has none any more. size is
 * sizeof(fiber_hooks_t) as the caller knows it: members beyond count as NULL. They are copied.
 *
 * Where: a fiber. Switches: no.
 * Errors: -EINVAL size is 0 though hooks is not NULL, or ends within a member; -ENOTSUP a member that this library does
 * not know is not NULL. Since: 0.1
 */
FIBERRT_API int fiber_hooks_set(const fiber_hooks_t *hooks, size_t size) FIBERRT_LINKNAME(fiber_hooks_set);

/**
 * Sets a fiber's tag; kind 0: takes it away. What pointer points to stays the caller's.
 *
 * Where: a fiber of its cord. Switches: no.
 * Errors: -EINVAL kind is above FIBER_TAG_KIND_MAX, or 0 though pointer is not NULL; -EPERM it belongs to another cord;
 * -ESRCH it has ended. Since: 0.1
 */
FIBERRT_API int fiber_tag_set(fiber_t fiber, fiber_tag_t tag) FIBERRT_LINKNAME(fiber_tag_set);

/**
 * A fiber's tag, in *out.
 *
 * Where: a fiber of its cord. Switches: no. Errors: -EINVAL out is NULL; -EPERM it belongs to another cord. Since: 0.1
 */
FIBERRT_API int fiber_tag_get(fiber_t fiber, fiber_tag_t *out) FIBERRT_LINKNAME(fiber_tag_get);

/* ------------------------------------------------------------------------------------------------------------------
 * Hosted fibers
 *
 * A HOSTED FIBER has no stack: its frame lives in another language - a C++20 coroutine, a generator, a goroutine - and
 * its HOST is the code that runs that frame. To the cord it is a fiber as any other, in the same run queue, with the
 * same handle, timers, scopes, cancel, interrupt, keys and joiners. It cannot call what says "Switches: yes", which
 * returns -EPERM in it. Where a fiber with a stack would make such a call, its frame leaves, and its host says what it
 * waits for by an operation record (fiber_op_t); when that is done, it has its next turn. It is run in one of two ways:
 *
 * By a STEP: a function that the cord calls for each turn, on one stack for all hosted fibers of the cord. The step
 * resumes the frame, and says by what it returns how that has left. It is called with the result of what the fiber
 * had waited for: 0 at the first turn. In a step the fiber is the calling one (fiber_self, fiber_key_get,
 * fiber_mutex_unlock, fiber_scope_open … are of it). Steps must not block the thread, and keep the stack of their
 * caller: errno, the floating-point control words and caught C++ exceptions are those of all.
 *
 *     int step(void *user, int64_t result) {
 *         struct reader *r = user;
 *         do {
 *             if (result < 0 || (result == 0 && r->begun)) return FIBER_STEP_END;
 *             r->begun = 1;
 *             r->total += result;
 *             r->op.code = FIBER_OP_RECV;
 *             r->op.fd = r->fd, r->op.address = r->buffer, r->op.length = sizeof r->buffer;
 *             if (fiber_op_start(&r->op) == 0) return FIBER_STEP_WAIT;
 *             result = r->op.result;
 *         } while (1);
 *     }
 *
 * By EXCHANGE, if it was made without a step: those that are runnable are handed out in batches to whoever calls
 * fiber_exchange on their cord, which also takes what they wait for next: one call per turn of the host, however many
 * fibers that is about. For runtimes which nobody else may call into.
 *
 * An operation record is the host's memory and stays where it is until the operation is done; it has a fixed layout, so
 * that other languages can write it, and fiber_ops_create makes some outside of any collected heap. What its addresses
 * point to must live as long. A fiber has one operation at a time.
 *
 * A hosted fiber that is cancelled before its first turn has that turn all the same, with -ECANCELED, as only its host
 * can free what it has. (One without a step that is about to be handed out has it with 0, and its next operation is
 * refused.) When its thread exits first it never runs again, like all fibers (see the destroy hook).
 * --------------------------------------------------------------------------------------------------------------- */

/* What a step returns. */
#define FIBER_STEP_END 0   /* the fiber has ended; its result is that of fiber_hosted_end, else NULL */
#define FIBER_STEP_AGAIN 1 /* another turn when all that are runnable have had theirs, as fiber_reschedule; the next
                              result is 0, or why that would have refused */
#define FIBER_STEP_WAIT 2  /* an operation that it has started is under way (fiber_op_start has returned 0). If none is,
                              it has another turn, with -EINVAL */
#define FIBER_STEP_YIELD 3 /* the next turn when somebody wakes it, as fiber_yield, whose result is the next one */

/* One turn of a hosted fiber: user is what it was made with, result that of what it has waited for.
 *
 * A step that returns none of these, or another than FIBER_STEP_WAIT while an operation is under way, is not called
 * again: the operation is ended as by a cancel, also in a shielded scope, and waited for, or not begun if others were
 * to have their turn first; then the fiber ends, and its joiners get -EINVAL. */
typedef int (*fiber_step_t)(void *user, int64_t result);

/* What an operation does: `code` of fiber_op_t, with the members that it uses. Their results are those of the calls of
 * the same names. An -ECANCELED, -EINTR or -ETIMEDOUT speaks of the hosted fiber. */
#define FIBER_OP_NONE 0        /* nothing: done at once, or in the next turn if it is time for those of others. It
                                  counts as a turn, as all that is done at once does */
#define FIBER_OP_RESCHEDULE 1  /* another turn when all that are runnable have had theirs */
#define FIBER_OP_YIELD 2       /* until it is woken */
#define FIBER_OP_SLEEP 3       /* number: nanoseconds */
#define FIBER_OP_JOIN 4        /* target: a fiber. value is its result then */
#define FIBER_OP_END 5         /* ends the fiber, value is its result: for exchange, instead of fiber_hosted_end. Never
                                  handed out as done */
#define FIBER_OP_READ 8        /* fd, address, length */
#define FIBER_OP_WRITE 9       /* fd, address, length */
#define FIBER_OP_RECV 10       /* fd, address, length, mode: its flags */
#define FIBER_OP_SEND 11       /* fd, address, length, mode: its flags */
#define FIBER_OP_ACCEPT 12     /* fd, address and address2 (NULL, or sockaddr and socklen_t), mode: flags of accept4 */
#define FIBER_OP_CONNECT 13    /* fd, address: sockaddr, length: its size, -EINVAL if it needs more than 32 bits */
#define FIBER_OP_POLL 14       /* fd, mode: events */
#define FIBER_OP_CLOSE 15      /* fd */
#define FIBER_OP_CHAN_SEND 16  /* target: a channel; address: the item */
#define FIBER_OP_CHAN_RECV 17  /* target: a channel; address: where to */
#define FIBER_OP_MUTEX_LOCK 18 /* address. Ended early by what fiber_mutex_lock_timeout is ended by */
#define FIBER_OP_MUTEX_UNLOCK 19 /* address. For exchange: it waits for nobody, but its turn may be over */
#define FIBER_OP_SEM_WAIT 20   /* address; number: of permits */
#define FIBER_OP_EVENT_WAIT 21 /* address */
#define FIBER_OP_WG_WAIT 22    /* address */
#define FIBER_OP_RDLOCK 23     /* address: a read-write lock */
#define FIBER_OP_WRLOCK 24     /* address: a read-write lock */
#define FIBER_OP_CALL 25       /* function(address) on a fiber with a stack of its own, in which it may wait; result is
                                  what it returns. What ends the wait early cancels that fiber, and waits for its end:
                                  everything that no other code is there for */

/* Bits of `flags` of fiber_op_t. */
#define FIBER_OP_TIMED 1u /* the wait ends with -ETIMEDOUT after timeout_ns nanoseconds; else no time but its scopes' */

/* An operation record: 400 bytes. All zero bytes are a fresh one; it may be used again when it is done. The members are
 * the host's to set before and to read after, none of them meanwhile. */
typedef struct fiber_op {
    uint32_t code;        /* FIBER_OP_* */
    uint32_t flags;       /* FIBER_OP_TIMED or 0 */
    fiber_t fiber;        /* the hosted fiber that waits; in a step zero is the calling one */
    void *user;           /* the host's own: the library does not look at it */
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
    uint64_t reserved[1]; /* zero; else the operation is refused with -EINVAL */
    uint64_t internal[36]; /* the library's */
} fiber_op_t;

/* A hosted fiber that has a turn: what fiber_exchange hands out. */
typedef struct {
    fiber_t fiber;
    void *user;     /* of the fiber */
    fiber_op_t *op; /* that is done; NULL: it is its first turn, or it was woken otherwise */
    int64_t result; /* of the operation, or of the turn as a step has it */
} fiber_completion_t;

/**
 * Makes a hosted fiber on the calling thread's cord. step NULL: it is handed out by fiber_exchange. Its first turn
 * comes after fiber_wakeup (or at once by fiber_start), like that of any fiber. user is the host's own; what it
 * points to stays the caller's. Of the attributes (NULL: the defaults) its name, detached and daemon count; the stack
 * size is that of the stack that steps run on, when the first hosted fiber of the cord is made; and free_arg, which is
 * called with user if its thread exits before it has ended. It must be joined or detached, and counts as a fiber
 * wherever fibers are counted.
 *
 * Where: a fiber. Switches: no.
 * Errors: -EINVAL out is NULL, or the attributes are of a task or of another cord; -ENOMEM; -EAGAIN as fiber_new, or
 * there is no stack for steps; -EPIPE the cord is being shut down. Since: 0.1
 */
FIBERRT_API int fiber_hosted_new(fiber_t *out, const fiber_attr_t *attr, fiber_step_t step, void *user)
    FIBERRT_LINKNAME(fiber_hosted_new);

/**
 * The user pointer that a hosted fiber was made with, in *user.
 *
 * Where: a fiber of its cord. Switches: no.
 * Errors: -EINVAL user is NULL, or it is not hosted; -EPERM it belongs to another cord. Since: 0.1
 */
FIBERRT_API int fiber_hosted_user(fiber_t fiber, void **user) FIBERRT_LINKNAME(fiber_hosted_user);

/**
 * Ends a hosted fiber, whose joiners get result. One that is handed out has ended when this returns: its host must not
 * go on with it. In its own step it ends when the step returns FIBER_STEP_END, which is all that the step may do then.
 * Mutexes that it holds are passed on; its scopes are closed, children that are left in them cancelled and not waited
 * for; the destructors of its keys run, in a no-switch section.
 *
 * Where: its step, or the flow that it is handed out to. Switches: no.
 * Errors: -EINVAL it is not hosted; -EPERM it belongs to another cord, or a hosted fiber is the calling one, in a step
 * or by fiber_hosted_enter, but for the first such call in its own step, with no operation under way; -EBUSY it is not
 * handed out: it waits, or is runnable. Since: 0.1
 */
FIBERRT_API int fiber_hosted_end(fiber_t fiber, void *result) FIBERRT_LINKNAME(fiber_hosted_end);

/**
 * Makes a hosted fiber that is handed out the calling one, as in a step, until fiber_hosted_leave: so that calls which
 * act on the calling fiber (keys, scopes, locks that are tried or left, fiber_self) are of it, and ambient values too.
 * Meanwhile nothing may wait. It cannot be nested, and ends with the function of the fiber that has called it, too. A
 * fork meanwhile is one in a turn of a hosted fiber: the child may only call exec or _exit.
 *
 * Where: the flow that it is handed out to. Switches: no.
 * Errors: -EINVAL it is not hosted; -EPERM it belongs to another cord, or in a no-switch section, in a step (also its
 * own), or while another is entered; -EBUSY it is not handed out. Since: 0.1
 */
FIBERRT_API int fiber_hosted_enter(fiber_t fiber) FIBERRT_LINKNAME(fiber_hosted_enter);

/**
 * Ends what fiber_hosted_enter has begun.
 *
 * Where: as fiber_hosted_enter. Switches: no.
 * Errors: -EINVAL nothing was begun; -EPERM in a hook, or another function that the library calls meanwhile. Since: 0.1
 */
FIBERRT_API int fiber_hosted_leave(void) FIBERRT_LINKNAME(fiber_hosted_leave);

/**
 * Makes count operation records, all zero, in one block that *out points to. fiber_ops_destroy frees it.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL out is NULL or count is 0; -ENOMEM. Since: 0.1
 */
FIBERRT_API int fiber_ops_create(fiber_op_t **out, size_t count) FIBERRT_LINKNAME(fiber_ops_create);

/**
 * Frees what fiber_ops_create has made. No operation in it may be under way. NULL is allowed and does nothing.
 *
 * Where: anywhere. Switches: no. Errors: none (returns 0). Since: 0.1
 */
FIBERRT_API int fiber_ops_destroy(fiber_op_t *ops) FIBERRT_LINKNAME(fiber_ops_destroy);

/**
 * Starts the operation of a hosted fiber. Returns 1 if it is done at once: op->result is there, and the fiber goes
 * on. Returns 0 if the fiber waits: it has its next turn when the operation is done (a step is called with the
 * result, and is to return FIBER_STEP_WAIT now; fiber_exchange hands it out), and op->result is there then. That is
 * also how others get their turns, if many operations could be done at once. An error is one of misuse, and nothing was
 * done; what is wrong with the operation itself is its result.
 *
 * Where: in a step of the fiber; or, for one that is handed out, its cord. Switches: no.
 * Errors: -EINVAL op is NULL, or its fiber is not hosted; -EPERM it belongs to
 * another cord, another fiber's step is running, another one is entered, its own step has called fiber_hosted_end, or
 * in a no-switch section or a hook; -EBUSY it waits, is runnable, or is itself entered (fiber_hosted_enter).
 * Since: 0.1
 */
FIBERRT_API int fiber_op_start(fiber_op_t *op) FIBERRT_LINKNAME(fiber_op_start);

/**
 * Starts op_count operations, in order, and takes up to most hosted fibers that have a turn; these are handed out, in
 * the order of their turns, and run when their host does it, until the next operation of each. If there is none, the
 * caller waits for one at most timeout_ns nanoseconds: the cord's other fibers run, and the thread sleeps. Returns
 * how many of out were filled, 0 when the time is over. More may be runnable: those come at the next call.
 *
 * An operation that cannot be started, as its fiber is not there (see fiber_op_start), comes back in out: with its
 * error as the result, and user NULL. When out is full it does not, and only op->result tells: with a most of at least
 * op_count none is missed. An error that ends the wait leaves the operations under way, with an op->result of 0 until
 * they are done; nobody that has a turn by then is lost: they come at the next call. Any other error refuses the call:
 * none was started, and the op->result of each is -EAGAIN, but for -EINVAL, which leaves the records as they were.
 *
 * A host whose operations are all done at once keeps the thread from nobody: each of them, FIBER_OP_NONE and the ones
 * that are refused included, counts as a turn, and when it is time for those of others a call lets them run first.
 *
 * In a foreign loop: hosted fibers that have a turn while nobody is in this call do not make fiber_cord_fd readable.
 * After each fiber_cord_run call this with a timeout of 0, as long as it fills out.
 *
 * Where: a fiber with a stack, one at a time on each cord. Switches: yes.
 * Errors: -EINVAL a NULL pointer where there must be none, a count below 0, most below 1, or timeout_ns < 0; -EBUSY
 * another fiber of the cord waits in this call, or has been woken and not gone on yet. Since: 0.1
 */
FIBERRT_API int fiber_exchange(fiber_op_t *const *ops, int op_count, fiber_completion_t *out, int most,
                               int64_t timeout_ns) FIBERRT_LINKNAME(fiber_exchange);

/* ------------------------------------------------------------------------------------------------------------------
 * Sight
 * --------------------------------------------------------------------------------------------------------------- */

/* What fiber_info tells. Later releases add members at the end. */
typedef struct {
    uint64_t id;                /* of the handle; unique in the process for ever */
    int32_t state;              /* FIBER_NEW … FIBER_DEAD */
    uint8_t cancelled;          /* 1: it is cancelled */
    uint8_t detached;           /* 1: nobody joins it */
    uint8_t permit;             /* 1: a wakeup is remembered */
    uint8_t main_flow;          /* 1: it is its thread's main flow */
    uint64_t stack_size;        /* bytes of address space of its stack; 0 if it has none of ours now */
    uint64_t stack_low;         /* the lowest usable address of its stack; 0 likewise */
    char name[FIBER_NAME_MAX];
    uint64_t cord;              /* the id of its cord's handle */
} fiber_info_t;

/**
 * Tells about a fiber. size is sizeof(fiber_info_t) as the caller knows it: that many bytes of *out are filled, members
 * that the library does not know with zero.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL out is NULL or size is 0. Since: 0.1
 */
FIBERRT_API int fiber_info(fiber_t fiber, fiber_info_t *out, size_t size) FIBERRT_LINKNAME(fiber_info);

/* What fiber_stats tells of the calling thread's cord, counted since it was opened. Later releases add at the end. */
typedef struct {
    uint64_t switches;        /* from one fiber to another */
    uint64_t instant_resumes; /* a fiber gave way and was itself the next */
    uint64_t polls;           /* looks for I/O and timers */
    uint64_t blocking_polls;  /* of these, the ones that put the thread to sleep */
    uint64_t ops;             /* operations given to the backend */
    uint64_t fibers;          /* that exist now: the main flow, new, live, and ended but not joined */
    uint64_t stacks;          /* in use now */
    uint64_t stacks_free;     /* kept for reuse */
    uint64_t ops_in_flight;   /* given to the backend, not completed */
    uint64_t stacks_high_water; /* the most that were in use at once, of each size and kind, added up */
    uint64_t stacks_trimmed;  /* of those kept for reuse, the ones whose memory has gone back to the system */
    uint64_t stack_bytes;     /* of address space that is committed for stacks, used or not */
} fiber_stats_t;

/**
 * Counters of the calling thread's cord; size as in fiber_info.
 *
 * Where: a fiber. Switches: no. Errors: -EINVAL out is NULL or size is 0. Since: 0.1
 */
FIBERRT_API int fiber_stats(fiber_stats_t *out, size_t size) FIBERRT_LINKNAME(fiber_stats);

/**
 * The name of what performs the I/O of the calling thread: "uring" (io_uring), "ev" (libev) or "sim" (the simulation).
 * Of a thread that has done none yet it is what its first call of that kind would choose, which is found out by opening
 * one and closing it again: some ten microseconds. "none" if none is to be had, be it only for now, for want of a
 * descriptor or of memory: then that first call returns this error, and a later one tries again. The string lives for
 * ever.
 *
 * The choice: io_uring, and where the kernel refuses that to this process, libev. The environment variable
 * FIBERRT_BACKEND=uring, =ev or =sim chooses one instead (not in a program that runs with other rights than its
 * user's); if that one cannot be had, or is not known, there is no backend, and the first call that needs it returns
 * -ENOTSUP or -EINVAL.
 *
 * Where: anywhere (opens no cord). Switches: no. Errors: none. Since: 0.1
 */
FIBERRT_API const char *fiber_backend_name(void) FIBERRT_LINKNAME(fiber_backend_name);

/* What fiber_features tells: what the library was built with. Bits that this header does not name may be set. */
#define FIBER_FEATURE_URING ((uint64_t)1) /* I/O by io_uring */
#define FIBER_FEATURE_EV ((uint64_t)2)    /* I/O by libev */
#define FIBER_FEATURE_SIM ((uint64_t)4)   /* simulated I/O and time */

/**
 * What the library that runs was built with: bits FIBER_FEATURE_*. Whether the kernel offers it, fiber_backend_name
 * tells.
 *
 * Where: anywhere (opens no cord). Switches: no. Errors: none. Since: 0.1
 */
FIBERRT_API uint64_t fiber_features(void) FIBERRT_LINKNAME(fiber_features);

/**
 * Writes to a descriptor, as lines of text, what there is to know: the library's version, the backend of the calling
 * thread's cord, why the last one that was opened is what it is (or none: what is wrong with FIBERRT_BACKEND), every
 * cord, and every fiber of the process with its name, its state and what it waits for, its open scopes, innermost
 * first, and its stack. Of the fibers of other cords, which go on running meanwhile, only what can be seen from here;
 * so what they wait for is not told, and all is as of the moment at which the line was made. The text is for people:
 * its form may change.
 *
 * It writes by plain write(2) and blocks the thread until all is written, also on a descriptor with O_NONBLOCK; a pipe
 * without a reader is -EPIPE and raises no SIGPIPE. pthread_cancel does not cut it off. It allocates nothing and opens
 * no cord, so that it may be called when something has gone wrong, and from a debugger: call
 * (int)fiberrt_fiber_dump(2).
 *
 * Where: anywhere, also in a no-switch section. Switches: no.
 * Errors: those of write(2), after part of the text may have been written. -EBADF fd is not open for writing. Since:
 * 0.1
 */
FIBERRT_API int fiber_dump(int fd) FIBERRT_LINKNAME(fiber_dump);

/* ------------------------------------------------------------------------------------------------------------------
 * Debugging
 *
 * What the library does for this it does only when it is asked to. docs/debugging.md tells how to go about it, also in
 * gdb.
 * --------------------------------------------------------------------------------------------------------------- */

/**
 * Has the overflow of a fiber's stack reported, before the program dies of it as it would have: with on not 0, a
 * handler of SIGSEGV is installed that writes a line to standard error which names the fiber and tells the size of its
 * stack. In any case it then passes the signal on to what was there before, which may be the default action, a core
 * file included, the handler of a sanitizer or of Go, or the program's own. With on 0 that is put back.
 *
 * The handler needs a stack of its own on each thread. That have the calling thread, if it has a cord, and threads
 * whose cords are opened later; others have it from when they make this call. Without it the program dies without a
 * report. Threads that have such a stack already (sigaltstack) keep theirs, which should have 16 KiB to spare. Ours are
 * freed with their cords.
 *
 * An overflow is seen where the guard is touched (fiber_attr_set_guard): a function whose frame is larger than the
 * guard may step over it, unless it was compiled with -fstack-clash-protection. The stacks of main flows are the
 * threads' own, and hosted fibers have none; a turn of theirs that overflows the stack it is on is told as that of the
 * library's own fiber there.
 *
 * Where: anywhere (opens no cord). Switches: no.
 * Errors: -EBUSY (on is 0) another handler has been installed after this one, and may call it: nothing has changed;
 * -ENOTSUP the signal cannot be had, as in a program in which AddressSanitizer keeps it (handle_segv=2); -ENOMEM there
 * is no memory for the stack. Since: 0.1
 */
FIBERRT_API int fiber_report_overflows(int on) FIBERRT_LINKNAME(fiber_report_overflows);

/* A fiber that has kept its thread for too long, as the watchdog tells it. Later releases add members at the end. */
typedef struct {
    fiber_t fiber;          /* who runs */
    fiber_cord_t cord;      /* on which cord */
    int64_t running_ns;     /* for how long at least */
    char fiber_name[FIBER_NAME_MAX];
    char cord_name[16];     /* as fiber_cord_attr_set_name has it, or empty */
    void *const *frames;    /* its backtrace, as by backtrace(3), from within the handler; gone when report returns */
    int frame_count;        /* 0: none was asked for, or none could be had */
} fiber_overrun_t;

/* What a watchdog is to do. Members that are zero mean what is said beside them. */
typedef struct {
    int64_t limit_ns;       /* for how long a fiber may keep its thread; at least FIBER_MSEC(1) */
    int signal;             /* by which a thread is asked for its backtrace; 0: no backtraces */
    void (*report)(void *data, const fiber_overrun_t *overrun); /* NULL: lines on standard error */
    void *data;             /* the first argument of it; the caller's */
} fiber_watchdog_t;

/**
 * Starts the process's watchdog: a thread that looks at all cords four times in limit_ns, and reports each fiber that
 * has not given way for that long, once for each such stretch, at most limit_ns / 4 late. What gives way is every call
 * that says "Switches: yes" when it waits or others have their turn, also if nobody else is runnable. Time in which the
 * thread itself is stuck in a system call, or not given a processor, counts; time in which the cord sleeps because none
 * of its fibers is runnable, also where it is left to a foreign loop, does not, nor does a main flow that is its cord's
 * only fiber. Fibers pay nothing for being watched. size is sizeof(fiber_watchdog_t) as the caller knows it: members
 * beyond count as zero. *options is copied.
 *
 * report is called on the watchdog's thread, which has no cord and takes no signals. It may do what threads may
 * do, but must not stop the watchdog; meanwhile nobody is watched. If it is NULL, a line is written to standard error
 * that names the fiber and its cord, and below it the backtrace as by backtrace_symbols_fd(3).
 *
 * If signal is not 0 (SIGRTMIN + n, say), a handler of it is installed, and the thread of each fiber that is reported
 * is sent it, once. It must be nobody else's: from others it is ignored. On that thread calls that the kernel does not
 * take up again by itself (nanosleep, poll and some more, see signal(7)) end with EINTR. The signal is unblocked on
 * threads whose cords are opened later, and these get a stack for the handler unless they have one; so the watchdog is
 * to be started before other threads. A thread that has it blocked is reported without a backtrace, after a second; one
 * that has no such stack, as its cord was opened before and by another thread than starts the watchdog, or one of its
 * own that is too small, is not sent it.
 *
 * The child of a fork has no watchdog, and may start one.
 *
 * Where: anywhere (opens no cord). Switches: no. Errors: -EINVAL options is NULL, size is 0 or ends within a member,
 * limit_ns is below a millisecond, or signal is none that a thread may be sent and handle; -EBUSY there is a watchdog
 * already, or the program has a handler for the signal, or one in front of ours that fiber_watchdog_stop has left;
 * -EAGAIN no thread can be made; -ENOMEM; -ENOTSUP in a simulation, or a member that this library does not know is not
 * zero. Since: 0.1
 */
FIBERRT_API int fiber_watchdog_start(const fiber_watchdog_t *options, size_t size)
    FIBERRT_LINKNAME(fiber_watchdog_start);

/**
 * Stops the watchdog, and gives its signal the disposition back that this had before; one that was sent and has not
 * come, as where it is blocked, never does. Blocks the thread, without giving way, until the report that is under way
 * has been made. Stacks for the handler stay with their cords.
 *
 * Where: anywhere. Switches: no. Errors: -ESRCH there is none; -EDEADLK the watchdog's own thread makes the call;
 * -EBUSY another thread is stopping it, or another handler has been installed for the signal after ours: then that
 * stays, and all else has been done. Since: 0.1
 */
FIBERRT_API int fiber_watchdog_stop(void) FIBERRT_LINKNAME(fiber_watchdog_stop);

#ifdef __cplusplus
}
#endif
#endif
