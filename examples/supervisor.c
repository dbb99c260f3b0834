/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * supervisor.c - keeps workers running: it restarts a worker that fails, after a pause that doubles with each failure
 * in a row. If a worker fails too often, the supervisor gives up and cancels all workers.
 *
 *     supervisor [failures...]        each number is a worker, which fails that many times before it does its work
 *
 * The workers are children of a scope with FIBER_SCOPE_COLLECT: a failure does not cancel the others. fiber_scope_next
 * tells the supervisor of each end.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_PAUSE FIBER_MSEC(10)
#define LONGEST_PAUSE FIBER_MSEC(40)
#define PATIENCE 5 /* failures in a row */
#define MOST 16

struct worker {
    fiber_t fiber;
    int number;
    long failures_to_come;
    int failed; /* in a row */
    int64_t pause;
};

/* The work, after a pause. The worker itself pauses, so a cancel of the scope also ends the pause. */
static int64_t work(void *arg) {
    struct worker *worker = arg;
    int64_t error = fiber_sleep(worker->pause);
    if (error < 0) {
        return error;
    }
    if (worker->failures_to_come-- > 0) {
        return -EIO;
    }
    return 0;
}

static void longer_pause(struct worker *worker) {
    worker->pause = worker->pause == 0 ? FIRST_PAUSE : worker->pause * 2;
    if (worker->pause > LONGEST_PAUSE) {
        worker->pause = LONGEST_PAUSE;
    }
}

static struct worker *worker_of(struct worker *workers, int count, fiber_t fiber) {
    for (int i = 0; i < count; i++) {
        if (workers[i].fiber.id == fiber.id) {
            return &workers[i];
        }
    }
    return NULL;
}

/* Returns 0 when all workers have done their work, or the error of the worker that failed too often. */
static int64_t supervise(struct worker *workers, int count) {
    fiber_scope_t scope;
    int64_t error = fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_COLLECT);
    if (error < 0) {
        return error;
    }
    for (int i = 0; i < count && error == 0; i++) {
        error = fiber_scope_spawn(scope, &workers[i].fiber, work, &workers[i]);
    }
    fiber_t ended;
    int64_t result;
    int told = 0;
    while (error == 0 && (told = fiber_scope_next(scope, &ended, &result)) == 1) {
        struct worker *worker = worker_of(workers, count, ended);
        if (result == 0) {
            printf("worker %d is done\n", worker->number);
        } else if (++worker->failed > PATIENCE) {
            printf("worker %d is given up\n", worker->number);
            error = result;
        } else {
            longer_pause(worker);
            printf("worker %d failed (%s), again in %d ms\n", worker->number, fiber_strerror((int)result),
                   (int)(worker->pause / FIBER_MSEC(1)));
            error = fiber_scope_spawn(scope, &worker->fiber, work, worker);
        }
    }
    if (error == 0) {
        error = told; /* 0, or the error of fiber_scope_next */
    }
    if (error < 0) {
        fiber_scope_cancel(scope, NULL);
    }
    fiber_scope_close(scope, NULL);
    return error;
}

int main(int argc, char **argv) {
    struct worker workers[MOST] = {{.number = 0}};
    int count = argc - 1;
    if (count > MOST) {
        fprintf(stderr, "supervisor: at most %d workers\n", MOST);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        char *end;
        workers[i].number = i;
        workers[i].failures_to_come = strtol(argv[i + 1], &end, 10);
        if (*end != '\0' || end == argv[i + 1] || workers[i].failures_to_come < 0) {
            fprintf(stderr, "usage: supervisor [failures...]\n");
            return 1;
        }
    }
    int64_t error = supervise(workers, count);
    if (error < 0) {
        fprintf(stderr, "supervisor: %s\n", fiber_strerror((int)error));
        return 1;
    }
    return 0;
}
