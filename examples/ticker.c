/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ticker.c - a fixed interval: one fiber ticks while the main flow echoes standard input, both on one thread. The ticks
 * keep their interval, however long each takes; ticks that are missed are left out and counted.
 *
 *     ticker INTERVAL-MS       until the end of standard input
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int64_t interval, failure;

static void *tick(void *unused) {
    int64_t next = 0; /* 0: the first tick comes one interval from now */
    for (int number = 1;; number++) {
        int64_t left_out = fiber_every(&next, interval);
        if (left_out < 0) {
            if (left_out != -ECANCELED) failure = left_out;
            return unused;
        }
        printf("tick %d, %d left out\n", number, (int)left_out);
        fflush(stdout);
    }
}

/* Waits for input by fiber_read, so that the other fiber runs meanwhile. */
static int64_t echo_input(void) {
    char bytes[4096];
    int64_t count;
    while ((count = fiber_read(STDIN_FILENO, bytes, sizeof bytes)) > 0) {
        fputs("echo: ", stdout);
        fwrite(bytes, 1, (size_t)count, stdout); /* which may have bytes of 0 */
        fflush(stdout);
    }
    return count;
}

int main(int argc, char **argv) {
    fiber_t ticker;
    if (argc != 2 || atoi(argv[1]) <= 0) return fprintf(stderr, "usage: ticker INTERVAL-MS\n"), 1;
    interval = FIBER_MSEC(atoi(argv[1]));
    int64_t error = fiber_spawn(&ticker, tick, NULL);
    if (error == 0) {
        error = echo_input();
        fiber_cancel(ticker, NULL);
        int joined = fiber_join(ticker, NULL);
        if (error == 0) error = joined < 0 ? joined : failure;
    }
    if (error < 0) return fprintf(stderr, "ticker: %s\n", fiber_strerror((int)error)), 1;
    return 0;
}
