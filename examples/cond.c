/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cond.c - wait for a condition on shared data: customers wait until the balance is high enough. A wakeup says only
 * that the balance has changed, so each wait is in a loop. A cancel ends a wait; the fiber holds the mutex then, too.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

static fiber_mutex_t lock = FIBER_MUTEX_INITIALIZER;
static fiber_cond_t changed = FIBER_COND_INITIALIZER; /* the balance has changed */
static long balance;

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "cond: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

static int pay_in(long cents) {
    int error = fiber_mutex_lock(&lock);
    if (error < 0 && error != -EOWNERDEAD) return error; /* after -EOWNERDEAD it holds the lock of an ended fiber */
    balance += cents;
    check(fiber_cond_broadcast(&changed), "fiber_cond_broadcast"); /* wakes all: each waits for another balance */
    return fiber_mutex_unlock(&lock);
}

static int pay_out(long cents) {
    int error = fiber_mutex_lock(&lock);
    if (error < 0 && error != -EOWNERDEAD) return error;
    error = 0;
    while (error == 0 && balance < cents) error = fiber_cond_wait(&changed, &lock);
    if (error == 0) balance -= cents;
    check(fiber_mutex_unlock(&lock), "fiber_mutex_unlock"); /* also after an error: the wait has locked it again */
    return error;
}

static void *serve(void *cents) {
    int error = pay_out(*(long *)cents);
    printf("%ld: %s\n", *(long *)cents, error < 0 ? fiber_strerror(error) : "paid out");
    return NULL;
}

int main(void) {
    long wanted[] = {500, 100, 1000};
    fiber_t customers[3];
    for (int i = 0; i < 3; i++) check(fiber_spawn(&customers[i], serve, &wanted[i]), "fiber_spawn");
    for (int i = 0; i < 3; i++) {
        check(fiber_sleep(FIBER_MSEC(1)), "fiber_sleep"); /* the customers run, and wait */
        check(pay_in(200), "pay_in");
    }
    for (int i = 0; i < 2; i++) check(fiber_join(customers[i], NULL), "fiber_join");
    check(fiber_cancel(customers[2], NULL), "fiber_cancel"); /* it would wait for ever */
    check(fiber_join(customers[2], NULL), "fiber_join");
    return 0;
}
