// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"runtime/debug"
	"sync/atomic"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Await calls fn on a separate goroutine, where fn may block, and waits for its results while other fibers run. fn gets
// the context that [Fiber.Context] returns. If f's wait ends early, Await returns the error at once. fn then continues
// and should end soon, because its context is done; its results are lost. If f was cancelled before, fn is not called.
//
// If fn panics, Await panics with a [*PanicError]. If fn calls runtime.Goexit, Await returns [ErrGoexit].
func Await[T any](f *Fiber, fn func(ctx context.Context) (T, error)) (T, error) {
	f.check("Await")
	var none T
	if err := f.pace("Await"); err != nil {
		return none, err
	}
	ctx := f.Context()
	results := new(struct {
		value T
		err   error
	})
	if err := f.await(func() { results.value, results.err = fn(ctx) }); err != nil {
		return none, err
	}
	return results.value, results.err
}

// A function that a goroutine runs for a fiber.
type job struct {
	done   atomic.Bool
	panics *PanicError
	exited bool
}

func (f *Fiber) await(run func()) error {
	j := &job{}
	f.employ(j, run)
	for !j.done.Load() {
		if err := f.park("Await", inAwait, 0); err != nil && !j.done.Load() {
			return err
		}
	}
	if j.panics != nil {
		panic(j.panics)
	}
	if j.exited {
		return ErrGoexit
	}
	return nil
}

// Runs a function on another goroutine, which wakes the fiber when the function has ended.
func (f *Fiber) employ(j *job, run func()) {
	handle := f.handle
	f.hub.handOff = true
	go func() {
		returned := false
		defer func() {
			if !returned {
				if value := recover(); value != nil {
					j.panics = &PanicError{Value: value, Stack: debug.Stack()}
				} else {
					j.exited = true
				}
			}
			j.done.Store(true)
			raw.Wakeup(handle)
		}()
		run()
		returned = true
	}()
}
