// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"context"
	"errors"
	"math/big"
	"testing"
)

func TestPrimes(t *testing.T) {
	for _, limit := range []int64{-1, 0, 1, 2, 3, 4, 1000} {
		next, wanted := int64(2), int64(0)
		found, err := primes(context.Background(), limit, func(prime int64) {
			for ; next < prime; next++ {
				if big.NewInt(next).ProbablyPrime(0) {
					t.Error(next, "was left out of those up to", limit)
				}
			}
			if !big.NewInt(prime).ProbablyPrime(0) || prime < next || prime > limit {
				t.Error(prime, "is none of those up to", limit)
			}
			next = prime + 1
			wanted++
		})
		if found != wanted || err != nil {
			t.Error(limit, found, wanted, err)
		}
		if limit == 1000 && found != 168 {
			t.Error(found)
		}
	}
}

// A cancelled sieve ends with all its fibers, and can be started again.
func TestPrimesCancelled(t *testing.T) {
	for stop := range 30 {
		ctx, cancel := context.WithCancel(context.Background())
		if stop == 0 {
			cancel()
		}
		seen := 0
		_, err := primes(ctx, 1<<40, func(int64) {
			if seen++; seen == stop {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || seen < stop {
			t.Error(stop, seen, err)
		}
		cancel()
	}
}
