/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Returns a size that has room for Go's signal handlers and for the saved registers. */
static size_t signal_stack_size(void) {
    long least = sysconf(_SC_SIGSTKSZ);
    return least > 65536 ? (size_t)least : 65536;
}

/* ---- A task ----------------------------------------------------------------------------------------------------- */

/* Notes that a task has ended. The main flow passes it to Go in its next turn, after all fibers that are runnable now.
 * It must not go at once: the library may still read the record of the step that called this function. */
static void finish(struct raw_task *task) {
    struct raw_thread *thread = task->thread;
    task->next = thread->finished;
    thread->finished = task;
    if (!task->next) {
        thread->oldest = task;
        fiber_wakeup((fiber_t){thread->main_flow});
    }
}

static int step(void *user, int64_t result) {
    struct raw_task *task = user;
    if (!task->begun) {
        task->begun = 1;
        int started = result < 0 ? (int)result : fiber_op_start(&task->op);
        if (started == 0) return FIBER_STEP_WAIT;
        if (started < 0) task->op.result = started;
    }
    finish(task);
    return FIBER_STEP_END;
}

static void begin(struct raw_task *task, struct raw_thread *thread) {
    fiber_t fiber;
    task->thread = thread;
    int error = fiber_hosted_new(&fiber, thread->attr, step, task);
    if (error < 0) {
        task->op.result = error;
        finish(task);
        return;
    }
    if (task->name) fiber_set_name(fiber, task->name);
    fiber_wakeup(fiber);
    /* Either this thread sees that the task is cancelled, or Go sees the fiber and cancels it. */
    __atomic_store_n(&task->fiber, fiber.id, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&task->cancelled, __ATOMIC_SEQ_CST)) fiber_cancel(fiber, NULL);
}

/* ---- The thread ------------------------------------------------------------------------------------------------- */

static void tell_go(struct raw_thread *thread) {
    const uint64_t one = 1;
    while (write(thread->fd, &one, sizeof one) < 0 && errno == EINTR) {}
}

static void publish(struct raw_thread *thread) {
    struct raw_task *newest = thread->finished;
    if (!newest) return;
    thread->finished = NULL;
    struct raw_task *before = __atomic_load_n(&thread->done, __ATOMIC_RELAXED);
    do thread->oldest->next = before;
    while (!__atomic_compare_exchange_n(&thread->done, &before, newest, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    if (__atomic_exchange_n(&thread->listens, 0, __ATOMIC_SEQ_CST)) tell_go(thread);
}

/* The main flow: begins the tasks that Go has pushed, in their order, and passes ended tasks back. */
static void serve(struct raw_thread *thread) {
    while (!__atomic_load_n(&thread->stop, __ATOMIC_SEQ_CST)) {
        struct raw_task *asked = __atomic_exchange_n(&thread->asked, NULL, __ATOMIC_SEQ_CST);
        struct raw_task *first = NULL;
        while (asked) {
            struct raw_task *next = asked->next;
            asked->next = first;
            first = asked;
            asked = next;
        }
        while (first) {
            struct raw_task *next = first->next;
            begin(first, thread);
            first = next;
        }
        publish(thread);
        fiber_yield();
    }
}

static int prepare(struct raw_thread *thread) {
    fiber_t self;
    fiber_scope_t shield;
    int error = fiber_self(&self);
    thread->main_flow = self.id;
    if (!error) error = fiber_attr_create(&thread->attr);
    if (!error) error = fiber_set_name(self, thread->name);
    if (!error) error = fiber_attr_set_detached(thread->attr, 1);
    if (!error) error = fiber_attr_set_name(thread->attr, "goroutine's operation");
    /* A shield: the main flow continues even if C code cancels it. */
    if (!error) error = fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD);
    return error;
}

static void *run(void *arg) {
    struct raw_thread *thread = arg;
    const stack_t signal_stack = {.ss_sp = thread->signal_stack, .ss_size = signal_stack_size()};
    sigaltstack(&signal_stack, NULL);
    if (thread->name[0]) pthread_setname_np(pthread_self(), thread->name);
    thread->error = prepare(thread);
    const int failed = thread->error;
    sem_post(&thread->ready);
    if (failed) return NULL;
    serve(thread);
    /* Cancel all other fibers that C code has started here, and wait until they have ended. */
    fiber_cord_t self;
    if (fiber_cord_self(&self) == 0) fiber_cord_shutdown(self, 0, FIBER_FOREVER);
    __atomic_store_n(&thread->ended, 1, __ATOMIC_SEQ_CST);
    tell_go(thread);
    return NULL;
}

/* Starts the thread with all signals blocked, except those that an instruction raises: other signals are for Go's
 * threads. */
static int create(struct raw_thread *thread) {
    sigset_t sent, before;
    const int raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigfillset(&sent);
    for (size_t i = 0; i < sizeof raised / sizeof *raised; i++) sigdelset(&sent, raised[i]);
    pthread_sigmask(SIG_BLOCK, &sent, &before);
    int error = pthread_create(&thread->thread, NULL, run, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

static void free_thread(struct raw_thread *thread) {
    fiber_attr_destroy(thread->attr);
    sem_destroy(&thread->ready);
    free(thread->signal_stack);
    free(thread);
}

int raw_thread_start(struct raw_thread **out, const char *name) {
    struct raw_thread *thread = calloc(1, sizeof *thread);
    if (!thread) return -ENOMEM;
    strncpy(thread->name, name, sizeof thread->name - 1);
    sem_init(&thread->ready, 0, 0);
    thread->signal_stack = malloc(signal_stack_size());
    int error = thread->signal_stack ? 0 : -ENOMEM;
    thread->fd = -1;
    if (!error && (thread->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) error = -errno;
    if (!error) error = create(thread);
    if (!error) {
        while (sem_wait(&thread->ready) < 0) {}
        error = thread->error;
        if (error) pthread_join(thread->thread, NULL);
    }
    if (error) {
        if (thread->fd >= 0) close(thread->fd);
        free_thread(thread);
        return error;
    }
    *out = thread;
    return 0;
}

/* Waits for the thread's end. Does not close the descriptor: Go does. */
void raw_thread_join(struct raw_thread *thread) {
    pthread_join(thread->thread, NULL);
    free_thread(thread);
}
