// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// ErrGoexit is the outcome of a fiber whose function has called [runtime.Goexit], and of a function given to [Await] that
// has. t.FailNow and t.SkipNow of package testing do so.
var ErrGoexit = errors.New("fiberrt: the function has called runtime.Goexit")

// ErrStopped is what the waits of fibers end with when their cord cannot go on, of which [Run] tells.
var ErrStopped = errors.New("fiberrt: the hub has stopped")

// Error is what a call that was refused or ended early returns. [errors.Is] finds the [syscall.Errno] in it;
// [context.Canceled] if the fiber or the scope around was cancelled, and then also the cause, if there was one; and
// [os.ErrDeadlineExceeded] if it was a deadline.
type Error struct {
	Call  string        // the name of what was called
	Errno syscall.Errno // the library's result
	Cause error         // of ECANCELED: why, or nil; of EPIPE: os.ErrClosed if it was Go that has closed the cord
}

func failure(call string, result int64) error {
	return &Error{Call: call, Errno: syscall.Errno(-result)}
}

// In a simulation there is one thread and the time is made up, which goroutines know nothing of: refused, 0 or -ENOTSUP.
func inSimulation() int {
	if os.Getenv("FIBERRT_BACKEND") == "sim" {
		return -int(syscall.ENOTSUP)
	}
	return 0
}

// Error implements error.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("fiberrt: %s: %s (%v)", e.Call, raw.StrError(-int(e.Errno)), e.Cause)
	}
	return fmt.Sprintf("fiberrt: %s: %s", e.Call, raw.StrError(-int(e.Errno)))
}

// Unwrap gives the number, and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause != nil {
		return []error{e.Errno, e.Cause}
	}
	return []error{e.Errno}
}

// Is implements what errors.Is asks.
func (e *Error) Is(target error) bool {
	switch e.Errno {
	case syscall.ECANCELED:
		return target == context.Canceled
	case syscall.ETIMEDOUT:
		return target == os.ErrDeadlineExceeded
	}
	return false
}

// Timeout tells whether it was a deadline, as package net's errors do.
func (e *Error) Timeout() bool { return e.Errno == syscall.ETIMEDOUT }

// PanicError carries a panic to where the fiber is joined, or what it waits for.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that has panicked, as debug.Stack gives it
}

// Error implements error; the stack is in the text.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }

// Unwrap gives the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
