// SPDX-License-Identifier: MIT OR Apache-2.0
// A sieve of prime numbers whose filters are fibers of C.
#pragma once

#include <stdint.h>

struct sieve;

// A sieve of the numbers up to a limit, NULL if there is no memory for it. Anywhere.
struct sieve *sieve_new(int64_t limit);
// Ends it. None of the two below may run any more.
void sieve_free(struct sieve *sieve);

// Functions for fibers. Each argument is a struct sieve *.

// Sieves, by fibers of its own that end with it, and returns how many primes there were, or -errno.
int64_t sieve_run(void *sieve);
// The next prime; -EPIPE when there is none any more.
int64_t sieve_next(void *sieve);
