// SPDX-License-Identifier: MIT OR Apache-2.0
// One fiber sends all numbers. Each prime has a fiber that passes on the numbers it does not divide. Unbuffered
// channels connect these stages. A number that leaves the last stage is the next prime, and gets a stage itself.
#include "sieve.h"

#include <errno.h>
#include <fiberrt.h>
#include <stdlib.h>

struct sieve {
    int64_t limit;
    fiber_chan_t primes; // the channel that sieve_next receives from
};

// A stage. The first one sends all numbers and has no prime.
struct stage {
    int64_t prime, limit;
    fiber_chan_t from, to;
    struct stage *before;
};

struct sieve *sieve_new(int64_t limit) {
    struct sieve *sieve = malloc(sizeof *sieve);
    if (sieve == NULL) return NULL;
    sieve->limit = limit;
    if (fiber_chan_create(&sieve->primes, sizeof(int64_t), 16) == 0) return sieve;
    free(sieve);
    return NULL;
}

void sieve_free(struct sieve *sieve) {
    fiber_chan_destroy(sieve->primes);
    free(sieve);
}

// Ends a stage: closes its channel, so that the next stage ends, too.
static int64_t end_stage(struct stage *stage, int error) {
    fiber_chan_close(stage->to);
    return error == -EPIPE ? 0 : error;
}

static int64_t count(void *argument) {
    struct stage *stage = argument;
    int error = 0;
    for (int64_t number = 2; number <= stage->limit && error == 0; number++)
        error = fiber_chan_send(stage->to, &number);
    return end_stage(stage, error);
}

static int64_t filter(void *argument) {
    struct stage *stage = argument;
    int64_t number;
    int error;
    while ((error = fiber_chan_recv(stage->from, &number)) == 0)
        if (number % stage->prime != 0 && (error = fiber_chan_send(stage->to, &number)) < 0) break;
    return end_stage(stage, error);
}

// Adds a stage after the last one.
static int add(fiber_scope_t scope, struct stage **last, struct stage next, int64_t (*fn)(void *)) {
    struct stage *stage = malloc(sizeof *stage);
    if (stage == NULL) return -ENOMEM;
    *stage = next;
    stage->before = *last;
    int error = fiber_chan_create(&stage->to, sizeof(int64_t), 0);
    if (error == 0 && (error = fiber_scope_spawn(scope, NULL, fn, stage)) < 0) fiber_chan_destroy(stage->to);
    if (error == 0)
        *last = stage;
    else
        free(stage);
    return error;
}

// Adds a stage for each prime and passes the prime on. Returns the number of primes.
static int64_t grow(struct sieve *sieve, fiber_scope_t scope, struct stage **last) {
    int64_t found = 0, prime;
    int error = add(scope, last, (struct stage){.limit = sieve->limit}, count);
    while (error == 0 && (error = fiber_chan_recv((*last)->to, &prime)) == 0 &&
           (error = fiber_chan_send(sieve->primes, &prime)) == 0) {
        found++;
        error = add(scope, last, (struct stage){.prime = prime, .from = (*last)->to}, filter);
    }
    return error == -EPIPE ? found : error;
}

int64_t sieve_run(void *argument) {
    struct sieve *sieve = argument;
    struct stage *last = NULL;
    fiber_scope_t scope;
    int64_t failure = 0;
    int64_t found = fiber_scope_open(&scope, FIBER_FOREVER, 0);
    if (found == 0) {
        found = grow(sieve, scope, &last);
        if (found < 0) fiber_scope_cancel(scope, NULL);
        fiber_scope_close(scope, &failure); // waits for all stages, whatever happens
        if (found >= 0 && failure < 0) found = failure;
    }
    while (last != NULL) {
        struct stage *before = last->before;
        fiber_chan_destroy(last->to);
        free(last);
        last = before;
    }
    fiber_chan_close(sieve->primes);
    return found;
}

int64_t sieve_next(void *argument) {
    struct sieve *sieve = argument;
    int64_t prime;
    int error = fiber_chan_recv(sieve->primes, &prime);
    return error < 0 ? error : prime;
}
