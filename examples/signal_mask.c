/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * signal_mask.c - a signal mask for each fiber, as an ambient value.
 *
 * The signal mask belongs to the thread, so all fibers of a cord share one. An ambient key with masks as values changes
 * the mask when the thread switches to a fiber with another mask. That costs one system call; switches between fibers
 * with equal masks cost none. A fiber that has set no mask runs with the thread's original mask.
 */
#include <fiberrt.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fiber_key_t mask_key;
static __thread sigset_t threads_own; /* the thread's mask, saved while a fiber's mask is in force */
static int changes;

static void apply(void *old, void *now) {
    changes++;
    if (!old)
        pthread_sigmask(SIG_SETMASK, now, &threads_own);
    else
        pthread_sigmask(SIG_SETMASK, now ? now : &threads_own, NULL);
}

/* Blocks a signal in the calling fiber. */
static int block(int signal_number) {
    sigset_t *mask = malloc(sizeof *mask);
    if (!mask) return -1;
    pthread_sigmask(SIG_SETMASK, NULL, mask);
    sigaddset(mask, signal_number);
    void *before = fiber_key_get(mask_key);
    int error = fiber_key_set(mask_key, mask);
    free(error ? mask : before);
    return error;
}

static const char *blocked(void) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    int one = sigismember(&mask, SIGUSR1), two = sigismember(&mask, SIGUSR2);
    return one && two ? "USR1 USR2" : one ? "USR1" : two ? "USR2" : "none";
}

static void *work(void *name) {
    if (strcmp(name, "plain") != 0 && block(strcmp(name, "one") == 0 ? SIGUSR1 : SIGUSR2) != 0) return NULL;
    for (int i = 0; i < 2; i++) {
        printf("%s: blocked: %s\n", (const char *)name, blocked());
        fiber_reschedule();
    }
    return NULL;
}

int main(void) {
    if (fiber_key_create_ambient(&mask_key, free, apply) != 0) return 1;
    static char one[] = "one", two[] = "two", plain[] = "plain";
    char *names[] = {one, two, plain};
    fiber_t fibers[3];
    for (int i = 0; i < 3; i++) {
        if (fiber_spawn(&fibers[i], work, names[i]) != 0) return 1;
    }
    for (int i = 0; i < 3; i++) {
        if (fiber_join(fibers[i], NULL) != 0) return 1;
    }
    printf("main: blocked: %s\n", blocked());
    int before = changes;
    for (int i = 0; i < 100; i++) fiber_reschedule();
    printf("changes between equal masks: %d\n", changes - before);
    return 0;
}
