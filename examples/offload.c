/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * offload.c - code that blocks its thread, such as a database library: fiber_offload calls it on another thread, and the
 * other fibers go on.
 */
#define _GNU_SOURCE
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int ticks;

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "offload: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

static int64_t slow_query(void *key) {
    usleep(100000); /* blocks its thread */
    return *(int *)key * 10;
}

static void *tick(void *unused) {
    while (fiber_sleep(FIBER_MSEC(1)) == 0) ticks++;
    return unused;
}

int main(void) {
    fiber_t ticker;
    int key = 7;
    int64_t answer;
    check(fiber_spawn(&ticker, tick, NULL), "fiber_spawn");
    check(fiber_offload(slow_query, &key, &answer), "fiber_offload"); /* key is safe on this stack until it returns */
    check(fiber_cancel(ticker, NULL), "fiber_cancel");
    check(fiber_join(ticker, NULL), "fiber_join");
    printf("the answer is %d, and the other fiber %s\n", (int)answer, ticks > 0 ? "ran meanwhile" : "stood still");
    return 0;
}
