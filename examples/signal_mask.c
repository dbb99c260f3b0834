/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * signal_mask.c - a signal mask for each fiber, as an ambient value. The mask belongs to the thread, so all its fibers
 * share one. An ambient key puts a fiber's own mask into force when the thread switches to it; a switch between fibers
 * with equal masks costs no system call. A fiber that has set no mask runs with the thread's.
 */
#define _POSIX_C_SOURCE 200809L
#include <fiberrt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static fiber_key_t mask_key;
static __thread sigset_t threads_own; /* the thread's mask, saved while a fiber's mask is in force */

static void apply(void *old, void *now) {
    pthread_sigmask(SIG_SETMASK, now != NULL ? now : &threads_own, old == NULL ? &threads_own : NULL);
}

/* Blocks a signal in the calling fiber. */
static int block(int signal_number) {
    sigset_t *mask = malloc(sizeof *mask);
    if (mask == NULL) return -1;
    pthread_sigmask(SIG_SETMASK, NULL, mask);
    sigaddset(mask, signal_number);
    void *before = fiber_key_get(mask_key);
    int error = fiber_key_set(mask_key, mask); /* calls apply, now and at each switch; free at the fiber's end */
    free(error < 0 ? mask : before);
    return error;
}

static void print_blocked(const char *name) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    printf("%s: %s %s\n", name, sigismember(&mask, SIGUSR1) ? "USR1" : "-", sigismember(&mask, SIGUSR2) ? "USR2" : "-");
}

static void *work(void *arg) {
    int signal_number = *(int *)arg;
    if (block(signal_number) < 0) exit(1);
    for (int i = 0; i < 2; i++) {
        print_blocked(signal_number == SIGUSR1 ? "one" : "two");
        fiber_reschedule();
    }
    return NULL;
}

int main(void) {
    int signals[] = {SIGUSR1, SIGUSR2};
    fiber_t fibers[2];
    if (fiber_key_create_ambient(&mask_key, free, apply) < 0) return 1;
    for (int i = 0; i < 2; i++) {
        if (fiber_spawn(&fibers[i], work, &signals[i]) < 0) return 1;
    }
    for (int i = 0; i < 2; i++) {
        if (fiber_join(fibers[i], NULL) < 0) return 1;
    }
    print_blocked("main");
    return 0;
}
