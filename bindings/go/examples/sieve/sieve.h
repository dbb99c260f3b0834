// SPDX-License-Identifier: MIT OR Apache-2.0
// A sieve of prime numbers whose filters are fibers of C.
#pragma once

#include <stdint.h>

struct sieve;

// Makes a sieve of the numbers up to a limit. Returns NULL if there is no memory. Any thread may call it.
struct sieve *sieve_new(int64_t limit);
// Frees the sieve. Neither of the two functions below may still run.
void sieve_free(struct sieve *sieve);

// Functions for fibers. Their argument is a struct sieve *.

// Runs the sieve with fibers that end before it returns. Returns the number of primes, or -errno.
int64_t sieve_run(void *sieve);
// Returns the next prime, or -EPIPE after the last one.
int64_t sieve_next(void *sieve);
