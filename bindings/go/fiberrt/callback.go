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

// Callback is a function of Go's that C may call: as the function [Callback.Func], with the argument [Callback.Arg].
//
// C may call it on any thread's own stack. On the stack of a fiber of C's it must not, which ends the program with a
// sentence, as Go cannot run there. What it calls must not give way: the calls of this package that do so panic in it. A
// function that cgo exports and that C calls directly has neither check: the runtime dies in both cases.
type Callback struct{ handle cgo.Handle }

// NewCallback makes a callback of fn. It lives until [Callback.Release]. Anywhere.
func NewCallback(fn func()) Callback { return Callback{cgo.NewHandle(fn)} }

// Func is the function to call, a void (*)(void *).
func (c Callback) Func() unsafe.Pointer { return C.fiberrt_go_call }

// Arg is what to call it with, a void *.
func (c Callback) Arg() uintptr { return uintptr(c.handle) }

// Release ends the callback. Nobody may call it any more.
func (c Callback) Release() { c.handle.Delete() }

// The workers by their goroutines, so that a callback finds the fiber that it is on.
var workers sync.Map // of self.G() to *worker

//export fiberrtGoCalled
func fiberrtGoCalled(handle C.uintptr_t) {
	if w, ok := workers.Load(self.G()); ok {
		f := w.(*worker).fiber
		f.callbacks++
		defer func() { f.callbacks-- }()
	}
	cgo.Handle(handle).Value().(func())()
}
