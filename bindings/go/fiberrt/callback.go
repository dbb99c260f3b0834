// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

/*
#include <stdint.h>
void fiberrt_go_call(void *callback);
*/
import "C"

import (
	"runtime/cgo"
	"sync"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/self"
)

// Callback is a Go function that C may call: C calls [Callback.Func] with the argument [Callback.Arg].
//
// C may call it on any thread's own stack, but not on the stack of a C fiber, because Go cannot run there: such a call
// ends the program with a message. The Go function must not wait or reschedule: such calls of this package panic. A
// function that cgo exports, and that C calls directly, has neither check: the Go runtime crashes in both cases.
type Callback struct{ handle cgo.Handle }

// NewCallback makes a callback that calls fn. It lives until [Callback.Release]. Anywhere.
func NewCallback(fn func()) Callback { return Callback{cgo.NewHandle(fn)} }

// Func returns the C function to call, a void (*)(void *).
func (c Callback) Func() unsafe.Pointer { return C.fiberrt_go_call }

// Arg returns the argument of the C function, a void *.
func (c Callback) Arg() uintptr { return uintptr(c.handle) }

// Release ends the callback. C must not call it any more.
func (c Callback) Release() { c.handle.Delete() }

// The workers by goroutine, so that a callback finds the fiber that it runs in.
var workers sync.Map // of self.G() to *worker

//export fiberrtGoCalled
func fiberrtGoCalled(handle C.uintptr_t) {
	if w, ok := workers.Load(self.G()); ok {
		f := w.(*worker).fiber.Load()
		f.callbacks++
		defer func() { f.callbacks-- }()
	}
	cgo.Handle(handle).Value().(func())()
}
