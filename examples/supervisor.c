/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * supervisor.c - restarts workers that fail, each after a longer pause; if one fails too often, all are cancelled. The
 * workers are children of a scope with FIBER_SCOPE_COLLECT, and fiber_scope_next tells the supervisor of each end.
 * The arguments say how often each of the two workers fails before it does its work, for example: supervisor 0 3
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_FAILURES = 4 };
struct worker {
    const char *name;
    int failures_to_come, failed;
    fiber_t fiber;
    int64_t pause;
};

static int64_t work(void *arg) {
    struct worker *worker = arg;
    int64_t error = fiber_sleep(worker->pause); /* here, so that a cancel of the scope ends the pause too */
    return error < 0 ? error : worker->failures_to_come-- > 0 ? -EIO : 0;
}

/* Returns 0 when all workers have done their work, or the error of the worker that failed too often. */
static int64_t supervise(struct worker *workers, int count) {
    fiber_scope_t scope;
    fiber_t ended;
    int64_t result, error = fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_COLLECT);
    if (error < 0) return error;
    for (int i = 0; i < count && error == 0; i++)
        error = fiber_scope_spawn(scope, &workers[i].fiber, work, &workers[i]);
    while (error == 0 && (error = fiber_scope_next(scope, &ended, &result)) == 1) {
        struct worker *worker = workers;
        while (worker->fiber.id != ended.id) worker++;
        error = 0;
        if (result == 0) {
            printf("%s is done\n", worker->name);
        } else if (++worker->failed > MOST_FAILURES) {
            error = result;
        } else {
            worker->pause = worker->pause ? 2 * worker->pause : FIBER_MSEC(10);
            printf("%s failed, again in %d ms\n", worker->name, (int)(worker->pause / FIBER_MSEC(1)));
            error = fiber_scope_spawn(scope, &worker->fiber, work, worker);
        }
    }
    if (error < 0) fiber_scope_cancel(scope, NULL);
    fiber_scope_close(scope, NULL);
    return error;
}

int main(int argc, char **argv) {
    struct worker workers[] = {{.name = "one"}, {.name = "two"}};
    if (argc != 3) return fprintf(stderr, "usage: supervisor FAILURES FAILURES\n"), 1;
    for (int i = 0; i < 2; i++) workers[i].failures_to_come = atoi(argv[i + 1]);
    int64_t error = supervise(workers, 2);
    if (error < 0) printf("gave up: %s\n", fiber_strerror((int)error));
    return error < 0;
}
