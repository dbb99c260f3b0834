/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mutex.c - a lock for a change that waits in the middle. Between two waits a fiber of one thread needs no lock: no
 * other fiber runs. Here each teller waits between reading the balance and writing it, so it holds a mutex meanwhile.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

static fiber_mutex_t lock = FIBER_MUTEX_INITIALIZER;
static long balance;

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "mutex: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

static int pay_in(long cents) {
    int error = fiber_mutex_lock(&lock);                 /* other fibers run while this one waits for the lock */
    if (error < 0 && error != -EOWNERDEAD) return error; /* after -EOWNERDEAD it holds the lock of an ended fiber */
    long before = balance;
    error = fiber_sleep(FIBER_MSEC(1)); /* stands for a line in the journal */
    if (error == 0) balance = before + cents;
    check(fiber_mutex_unlock(&lock), "fiber_mutex_unlock"); /* also after an error */
    return error;
}

static void *serve(void *cents) {
    check(pay_in(*(const long *)cents), "pay_in");
    return NULL;
}

int main(void) {
    long orders[] = {100, 250, 50, 600};
    fiber_t tellers[4];
    for (int i = 0; i < 4; i++) check(fiber_spawn(&tellers[i], serve, &orders[i]), "fiber_spawn");
    for (int i = 0; i < 4; i++) check(fiber_join(tellers[i], NULL), "fiber_join");
    printf("the balance is %ld\n", balance);
    return 0;
}
