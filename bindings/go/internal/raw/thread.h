/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * thread.h - a cord on a thread of C's, which performs operations for goroutines.
 *
 * Each operation is a hosted fiber's. Go pushes tasks to `asked`; the thread pushes them to `done` when they have ended,
 * as many at a time as have, and writes to an eventfd if Go has said in `listens` that it waits for that.
 */
#ifndef FIBERRT_GO_THREAD_H
#define FIBERRT_GO_THREAD_H

#include <fiberrt.h>
#include <pthread.h>
#include <semaphore.h>

struct raw_task {
    struct raw_task *next; /* in the list that it is in */
    struct raw_thread *thread;
    uint64_t fiber;     /* whose operation it is; 0: it has not begun. Atomic */
    uint32_t cancelled; /* Go has asked for that. Atomic */
    uint32_t number;    /* Go's own */
    uint64_t begun;
    fiber_op_t op;
};

struct raw_thread {
    struct raw_task *asked; /* newest first. Atomic, as all up to `ended` */
    struct raw_task *done;  /* newest first */
    uint32_t listens;       /* Go waits for the descriptor */
    uint32_t stop;          /* asked for by Go, when all tasks are done */
    uint32_t ended;         /* the thread is about to exit */
    int fd;
    uint64_t main_flow;
    /* The thread's own. */
    struct raw_task *finished, *oldest; /* to go to `done`, newest first */
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
