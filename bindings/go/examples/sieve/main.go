// SPDX-License-Identifier: MIT OR Apache-2.0

// Sieve prints the primes up to a number. The sieve is C code (sieve.c) with a fiber for each prime. The Go program
// runs it on a cord and gets one prime after the other. SIGINT ends the program.
//
//	sieve [NUMBER]
package main

/*
#cgo fiberrt_system pkg-config: fiberrt
#cgo !fiberrt_system CPPFLAGS: -I${SRCDIR}/../../clib
#include "sieve.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"unsafe"

	"example.com/fiberrt/bindings/go/fiberrt"
)

func main() {
	limit := int64(1000)
	if len(os.Args) > 1 {
		var err error
		if limit, err = strconv.ParseInt(os.Args[1], 10, 64); err != nil {
			log.Fatal(err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	found, err := primes(ctx, limit, func(prime int64) { fmt.Println(prime) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found, "in all")
}

// Calls each with every prime up to a limit, in order, and returns the number of primes.
func primes(ctx context.Context, limit int64, each func(int64)) (int64, error) {
	sieve := C.sieve_new(C.int64_t(limit))
	if sieve == nil {
		return 0, syscall.ENOMEM
	}
	defer C.sieve_free(sieve)
	cord, err := fiberrt.StartCord("sieve")
	if err != nil {
		return 0, err
	}
	defer cord.Close() // before the sieve is freed: its fibers use it
	run := cord.SpawnCContext(ctx, C.sieve_run, unsafe.Pointer(sieve))
	for {
		prime, err := cord.SpawnC(C.sieve_next, unsafe.Pointer(sieve)).Wait(ctx)
		if errors.Is(err, syscall.EPIPE) {
			return run.Wait(ctx)
		}
		if err != nil {
			return 0, err
		}
		each(prime)
	}
}
