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

// ErrGoexit is the outcome of a fiber whose function called [runtime.Goexit]. [Await] returns it if its function called
// runtime.Goexit. t.FailNow and t.SkipNow of package testing do so.
var ErrGoexit = errors.New("fiberrt: the function has called runtime.Goexit")

// ErrStopped is the error of all waits after the cord has failed. [Run] returns the reason.
var ErrStopped = errors.New("fiberrt: the hub has stopped")

// Error is the error of a call that was refused or ended early. [errors.Is] finds the [syscall.Errno] in it. It also
// finds [context.Canceled], and the cause if there is one, if the fiber or an enclosing scope was cancelled; and
// [os.ErrDeadlineExceeded] if a deadline expired.
type Error struct {
	Call  string        // the name of the called function or method
	Errno syscall.Errno // the library's result
	Cause error         // with ECANCELED the cause of the cancel, or nil; with EPIPE os.ErrClosed if Go closed the cord
}

func failure(call string, result int64) error {
	return &Error{Call: call, Errno: syscall.Errno(-result)}
}

// Returns -ENOTSUP in the simulation, else 0. The simulation has one thread and its own clock; goroutines have neither.
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

// Unwrap returns Errno, and Cause if there is one.
func (e *Error) Unwrap() []error {
	if e.Cause != nil {
		return []error{e.Errno, e.Cause}
	}
	return []error{e.Errno}
}

// Is supports [errors.Is] for [context.Canceled] and [os.ErrDeadlineExceeded].
func (e *Error) Is(target error) bool {
	switch e.Errno {
	case syscall.ECANCELED:
		return target == context.Canceled
	case syscall.ETIMEDOUT:
		return target == os.ErrDeadlineExceeded
	}
	return false
}

// Timeout tells whether a deadline expired, as the errors of package net do.
func (e *Error) Timeout() bool { return e.Errno == syscall.ETIMEDOUT }

// PanicError is the panic of a fiber, or of a function given to [Await].
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // the stack of the goroutine that panicked, from debug.Stack
}

// Error implements error; the text includes the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
