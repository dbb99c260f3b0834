/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * generator.c - a generator: fiber_transfer switches to the fiber that produces the next value, and back with it. Each
 * side continues where it was, with its own variables. A cancel ends a generator without an end.
 */
#include <fiberrt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "generator: %s: %s\n", what, fiber_strerror(result));
        exit(1);
    }
}

/* Produces the Fibonacci numbers up to *limit. The consumer may read `current` until it asks for the next value. */
static void *fibonacci(void *limit) {
    uint64_t current = 0, next = 1;
    while (current <= *(const uint64_t *)limit) {
        fiber_t consumer;
        check(fiber_transferrer(&consumer, NULL), "fiber_transferrer");
        if (fiber_transfer(consumer, &current, NULL) < 0) break; /* cancelled: the consumer wants no more */
        uint64_t sum = current + next;
        current = next;
        next = sum;
    }
    return NULL;
}

static void print_values(uint64_t limit, int most) {
    fiber_t generator;
    check(fiber_new(&generator, NULL, fibonacci, &limit), "fiber_new");
    int ended = 0;
    for (int i = 0; i < most; i++) {
        void *value;
        ended = fiber_transfer(generator, NULL, &value);
        check(ended, "fiber_transfer");
        if (ended) break; /* 1: the generator has returned */
        printf("%" PRIu64 " ", *(const uint64_t *)value);
    }
    printf("%s\n", ended ? "(the end)" : "...");
    check(fiber_cancel(generator, NULL), "fiber_cancel"); /* no effect if it has ended */
    check(fiber_join(generator, NULL), "fiber_join");
}

int main(void) {
    print_values(100, 1000);
    print_values(UINT64_MAX, 20);
    return 0;
}
