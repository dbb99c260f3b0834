// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fibers.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

// Functions for fibers. They return their own result, or -errno.

int64_t ctest_same(void *number) { return *(int64_t *)number; }
int64_t ctest_nothing(void *unused) { return 0; }
int64_t ctest_gives_way(void *unused) { return fiber_reschedule(); }
int64_t ctest_sleeps(void *ns) { return fiber_sleep(*(int64_t *)ns); }
int64_t ctest_waits(void *unused) { return fiber_yield(); }
int64_t ctest_leaves(void *unused) { return fiber_exit((void *)(intptr_t)17); }

// Waits until it is cancelled, and returns another result than -ECANCELED.
int64_t ctest_puts_up(void *unused) {
    while (fiber_yield() == 0) {}
    return fiber_cancelled(NULL) ? 42 : -EPROTO;
}

int64_t ctest_in_time(void *ns) {
    int verdict;
    int result = 0;
    FIBER_WITH_TIMEOUT(*(int64_t *)ns, &verdict) result = fiber_yield();
    return result;
}

// The body of a fiber that is not joined.
static void *stray(void *ended) {
    fiber_yield();
    __atomic_add_fetch((int *)ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int64_t ctest_leaves_strays(void *ended) {
    for (int i = 0; i < 3; i++) {
        int error = fiber_spawn(NULL, stray, ended);
        if (error < 0) return error;
    }
    return 0;
}

// Cancels the thread's main flow, and all fibers that it finds.
static void *cancel_all(void *unused) {
    fiber_cord_t cord;
    fiber_cord_self(&cord);
    return (void *)(intptr_t)fiber_cord_shutdown(cord, 0, 0);
}
int64_t ctest_shuts_down(void *unused) { return (intptr_t)cancel_all(NULL); }

// Returns 0 if the thread blocks the signals that other threads send, and has a signal stack for its own.
int64_t ctest_signals(void *unused) {
    sigset_t blocked;
    stack_t stack;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    for (int signal = 1; signal < 32; signal++) {
        int raised = signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
                     signal == SIGTRAP || signal == SIGSYS;
        if (signal != SIGKILL && signal != SIGSTOP && sigismember(&blocked, signal) == raised) return signal;
    }
    sigaltstack(NULL, &stack);
    return stack.ss_flags & SS_DISABLE ? -ENOTSUP : 0;
}

int64_t ctest_overflows(void *depth) {
    volatile char room[4096];
    room[0] = (char)(intptr_t)depth;
    return ctest_overflows((char *)depth + 1) + room[0];
}

int64_t ctest_calls(void *call) {
    void **it = call;
    ((void (*)(void *))it[0])(it[1]);
    return 0;
}

// Receives int64_t values from a channel and sends the double of each to another, until the first one is closed.
struct two {
    fiber_chan_t from, to;
};

int64_t ctest_doubles(void *channels) {
    struct two *two = channels;
    int64_t number, count = 0;
    int error;
    while ((error = fiber_chan_recv(two->from, &number)) == 0) {
        number *= 2;
        if ((error = fiber_chan_send(two->to, &number)) < 0) return error;
        count++;
    }
    fiber_chan_close(two->to);
    return error == -EPIPE ? count : error;
}
