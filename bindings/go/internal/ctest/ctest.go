// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// Package ctest has C code for tests, because files of tests must not use cgo.
package ctest

/*
#cgo fiberrt_system pkg-config: fiberrt
#cgo !fiberrt_system CPPFLAGS: -I${SRCDIR}/../../clib
#include <errno.h>
#include <fiberrt.h>

#include "fibers.h"

void ctestExported(void *unused);

struct call {
    void (*fn)(void *);
    void *arg;
};

static void call(void *fn, uintptr_t arg) { ((void (*)(void *))fn)((void *)arg); }

static void *in_fiber(void *arg) {
    struct call *call = arg;
    call->fn(call->arg);
    return NULL;
}

static void *in_cord(void *arg) {
    fiber_t fiber;
    int error = fiber_spawn(&fiber, in_fiber, arg);
    return error < 0 || fiber_join(fiber, NULL) < 0 ? arg : NULL;
}

// Calls fn on the stack of a fiber, on another thread.
static int call_on_fiber(void *fn, uintptr_t arg) {
    struct call call = {(void (*)(void *))fn, (void *)arg};
    fiber_cord_t cord;
    int error = fiber_cord_start(&cord, NULL, in_cord, &call);
    void *failed = NULL;
    if (error == 0) error = fiber_cord_join(cord, &failed);
    return error < 0 ? error : failed ? -EIO : 0;
}

static void call_exported(void) { ctestExported(NULL); }
static int overflow_reported(void) {
    struct call call = {(void (*)(void *))ctest_overflows, NULL};
    int error = fiber_report_overflows(1);
    if (error == 0) in_cord(&call);
    return error;
}

static int call_exported_on_fiber(void) { return call_on_fiber((void *)ctestExported, 0); }
*/
import "C"

import (
	"unsafe"

	_ "example.com/fiberrt/bindings/go/clib"
)

// Exported is the Go function that the function exported to C calls.
var Exported func()

//export ctestExported
func ctestExported(unsafe.Pointer) { Exported() }

// Call calls a void (*)(void *) on the calling thread's own stack.
func Call(fn unsafe.Pointer, arg uintptr) { C.call(fn, C.uintptr_t(arg)) }

// CallOnFiber calls a void (*)(void *) on the stack of a fiber.
func CallOnFiber(fn unsafe.Pointer, arg uintptr) int {
	return int(C.call_on_fiber(fn, C.uintptr_t(arg)))
}

// CallExported calls the exported function directly from C.
func CallExported() { C.call_exported() }

// CallExportedOnFiber calls the exported function directly from C, on the stack of a fiber.
func CallExportedOnFiber() int { return int(C.call_exported_on_fiber()) }

// OverflowReported turns on reports of stack overflows, in front of Go's handler, and overflows a stack on the calling
// thread.
func OverflowReported() int { return int(C.overflow_reported()) }
