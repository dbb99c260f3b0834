/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The program whose instructions counts.py counts: `counts SHAPE N` does one thing N times.
 *     yield   a fiber gives way and the next one, of two, goes on
 *     wake    a round trip: wake the other one and yield, which does the same
 *     spawn   a fiber made, run and joined, on a stack that is there
 * `counts made-with` prints the properties that the figures depend on. */
#include <fiberrt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The library reads the clock to decide how often to poll. Here time stands still, so that the answer is always the
 * same. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    now->tv_sec = 1000;
    now->tv_nsec = 0;
    return 0;
}

static void check(int result) {
    if (result < 0) {
        fprintf(stderr, "counts: %s\n", fiber_strerror(result));
        exit(1);
    }
}

static void *reschedule_until_cancelled(void *unused) {
    (void)unused;
    while (fiber_reschedule() == 0) {}
    return NULL;
}

static void *answer_until_cancelled(void *asker) {
    while (fiber_yield() == 0) check(fiber_wakeup(*(fiber_t *)asker));
    return NULL;
}

static void *nothing(void *argument) { return argument; }

static void yields(long n) {
    fiber_t other;
    check(fiber_spawn(&other, reschedule_until_cancelled, NULL));
    for (long i = 0; i < n; i += 2) check(fiber_reschedule()); /* the other one's is the second */
    check(fiber_cancel(other, NULL));
    check(fiber_join(other, NULL));
}

static void wakes(long n) {
    fiber_t me, other;
    check(fiber_self(&me));
    check(fiber_spawn(&other, answer_until_cancelled, &me));
    check(fiber_reschedule());
    for (long i = 0; i < n; i++) {
        check(fiber_wakeup(other));
        check(fiber_yield());
    }
    check(fiber_cancel(other, NULL));
    check(fiber_join(other, NULL));
}

static void spawns(long n) {
    for (long i = 0; i < n; i++) {
        fiber_t fiber;
        check(fiber_spawn(&fiber, nothing, NULL));
        check(fiber_join(fiber, NULL));
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "made-with") == 0) {
#ifdef __clang__
        const char *compiler = "clang";
#else
        const char *compiler = "gcc";
#endif
        printf("%s %s, %s, %s\n", compiler, __VERSION__, COUNTS_ARCHITECTURE, COUNTS_BUILD_TYPE);
        return 0;
    }
    if (argc != 3) {
        fprintf(stderr, "usage: counts yield|wake|spawn N, or counts made-with\n");
        return 2;
    }
    long n = atol(argv[2]);
    if (strcmp(argv[1], "yield") == 0)
        yields(n);
    else if (strcmp(argv[1], "wake") == 0)
        wakes(n);
    else if (strcmp(argv[1], "spawn") == 0)
        spawns(n);
    else
        return 2;
    return 0;
}
