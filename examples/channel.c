/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * channel.c - a channel between fibers: one fiber sends numbers, another squares them, and the main flow prints them.
 * A send waits while the channel is full, so a fast sender does not run ahead; a closed channel ends its receiver.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

static fiber_chan_t numbers, squares;

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "channel: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

static void *count(void *most) {
    for (int number = 1; number <= *(const int *)most; number++) {
        if (fiber_chan_send(numbers, &number) < 0) break;
    }
    fiber_chan_close(numbers); /* the receiver still gets what was sent before */
    return NULL;
}

static void *square(void *unused) {
    int number;
    while (fiber_chan_recv(numbers, &number) == 0) {
        number *= number;
        if (fiber_chan_send(squares, &number) < 0) break;
    }
    fiber_chan_close(squares);
    return unused;
}

int main(void) {
    int most = 5, number, result;
    check(fiber_chan_create(&numbers, sizeof number, 2), "fiber_chan_create");
    check(fiber_chan_create(&squares, sizeof number, 2), "fiber_chan_create");
    check(fiber_spawn(NULL, count, &most), "fiber_spawn"); /* NULL: detached; the channels tell of the ends */
    check(fiber_spawn(NULL, square, NULL), "fiber_spawn");
    while ((result = fiber_chan_recv(squares, &number)) == 0) printf("%d\n", number);
    if (result != -EPIPE) check(result, "fiber_chan_recv"); /* -EPIPE: closed and empty */
    check(fiber_chan_destroy(numbers), "fiber_chan_destroy");
    check(fiber_chan_destroy(squares), "fiber_chan_destroy");
    return 0;
}
