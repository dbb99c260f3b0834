/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pool.c - a pool of threads for computing: the main flow gives it tasks and waits for all of them. Each task runs in a
 * fiber on one of the threads; a wait group counts the tasks that have not ended.
 */
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

enum { TASKS = 10 };

struct task {
    int from, to;
    int primes; /* the result */
};

static fiber_wg_t all = FIBER_WG_INITIALIZER(0);

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "pool: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

static void *count_primes(void *arg) {
    struct task *task = arg;
    for (int number = task->from; number < task->to; number++) {
        int divisor = 2;
        while (divisor * divisor <= number && number % divisor != 0) divisor++;
        task->primes += number >= 2 && divisor * divisor > number;
    }
    check(fiber_wg_done(&all), "fiber_wg_done"); /* now the main flow may read this task */
    return NULL;
}

int main(void) {
    struct task tasks[TASKS];
    fiber_pool_t pool;
    int error = 0, sum = 0;
    check(fiber_pool_create(&pool, NULL), "fiber_pool_create"); /* NULL: a thread for each processor */
    for (int i = 0; i < TASKS && error == 0; i++) {
        tasks[i] = (struct task){1000 * i, 1000 * (i + 1), 0};
        check(fiber_wg_add(&all, 1), "fiber_wg_add");
        error = fiber_pool_submit(pool, count_primes, &tasks[i]);
        if (error < 0) check(fiber_wg_done(&all), "fiber_wg_done"); /* for the task, which never runs */
    }
    check(fiber_wg_wait(&all), "fiber_wg_wait");       /* after an error too: the others use `tasks` */
    check(fiber_pool_close(pool), "fiber_pool_close"); /* ends the threads */
    check(error, "fiber_pool_submit");
    for (int i = 0; i < TASKS; i++) sum += tasks[i].primes;
    printf("%d primes below %d\n", sum, 1000 * TASKS);
    return 0;
}
