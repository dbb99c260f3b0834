/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * thread.h - a cord on a C thread, which performs operations for goroutines.
 *
 * A hosted fiber performs each operation. Go pushes tasks to `asked`. The thread pushes all tasks that have ended to
 * `done` at once, and writes to an eventfd if Go has set `listens`.
 */
#ifndef FIBERRT_GO_THREAD_H
#define FIBERRT_GO_THREAD_H

#include <fiberrt.h>
#include <pthread.h>
#include <semaphore.h>

struct raw_task {
    struct raw_task *next; /* in its list */
    struct raw_thread *thread;
    uint64_t fiber;     /* the hosted fiber of the operation; 0: not begun. Atomic */
    uint32_t cancelled; /* set by Go. Atomic */
    uint32_t number;    /* for Go's use */
    uint64_t begun;
    const char *name; /* of the fiber; NULL: the name of all fibers of tasks. Never freed */
    fiber_op_t op;
};

struct raw_thread {
    struct raw_task *asked; /* newest first. Atomic, as all up to `ended` */
    struct raw_task *done;  /* newest first */
    uint32_t listens;       /* Go waits for the descriptor */
    uint32_t stop;          /* set by Go when all tasks are done */
    uint32_t ended;         /* the thread is about to exit */
    int fd;
    uint64_t main_flow;
    /* Used only by the thread. */
    struct raw_task *finished, *oldest; /* tasks that will go to `done`, newest first */
    fiber_attr_t *attr;
    pthread_t thread;
    void *signal_stack;
    sem_t ready;
    int error;
    char name[16];
};

int raw_thread_start(struct raw_thread **out, const char *name);
void raw_thread_join(struct raw_thread *thread);

#endif
