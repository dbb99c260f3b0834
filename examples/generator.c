/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * generator.c - a generator: a fiber that produces values one by one, with fiber_transfer.
 *
 * The consumer transfers to the generator to ask for a value; the generator transfers back with the value. Each
 * continues where it was, with its own variables. The program shows two ends: a generator that returns, and a consumer
 * that cancels a generator without end.
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

/* Produces the Fibonacci numbers up to *limit. It passes a pointer to its own variable: the consumer may read the
 * variable until it asks for the next value. */
static void *fibonacci(void *limit) {
    uint64_t current = 0;
    uint64_t next = 1;
    while (current <= *(const uint64_t *)limit) {
        fiber_t consumer;
        check(fiber_transferrer(&consumer, NULL), "who asks?");
        if (fiber_transfer(consumer, &current, NULL) < 0) {
            break; /* cancelled: the consumer wants no more */
        }
        uint64_t sum = current + next;
        current = next;
        next = sum;
    }
    return NULL;
}

/* Prints up to count values and returns 1 if the generator ended earlier. */
static int print_values(fiber_t generator, int count) {
    for (int i = 0; i < count; i++) {
        void *value;
        int ended = fiber_transfer(generator, NULL, &value);
        check(ended, "fiber_transfer");
        if (ended) {
            printf("\n");
            return 1;
        }
        printf("%s%" PRIu64, i > 0 ? " " : "", *(const uint64_t *)value);
    }
    printf("\n");
    return 0;
}

int main(void) {
    fiber_t generator;

    uint64_t limit = 100;
    check(fiber_new(&generator, NULL, fibonacci, &limit), "fiber_new");
    printf("up to 100: ");
    int ended = print_values(generator, 1000);
    printf("%s\n", ended ? "the generator ended" : "the generator did not end");
    check(fiber_join(generator, NULL), "fiber_join");

    uint64_t no_limit = UINT64_MAX;
    check(fiber_new(&generator, NULL, fibonacci, &no_limit), "fiber_new");
    printf("the first 20: ");
    print_values(generator, 20);
    check(fiber_cancel(generator, NULL), "fiber_cancel");
    check(fiber_join(generator, NULL), "fiber_join");
    printf("the generator was abandoned\n");
    return 0;
}
