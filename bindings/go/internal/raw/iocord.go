// SPDX-License-Identifier: MIT OR Apache-2.0

package raw

/*
#cgo noescape raw_submit
#cgo nocallback raw_submit
#cgo noescape raw_interrupt
#cgo nocallback raw_interrupt
#include "iocord.h"
#include <stdlib.h>

static int raw_submit(void *cord, void *request) { return io_cord_submit(cord, request); }
static int raw_interrupt(uint64_t fiber) { return fiber_interrupt((fiber_t){fiber}, NULL); }
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// Request is io_request: an operation for a goroutine, in memory of [NewRequests].
type Request struct {
	Op
	next unsafe.Pointer
}

// Request is laid out as that of C.
const _ = -(unsafe.Sizeof(Request{}) ^ C.sizeof_io_request)

// NewRequests makes count requests, which are never freed; nil if there is no memory.
func NewRequests(count int) []Request {
	requests := C.calloc(C.size_t(count), C.sizeof_io_request)
	if requests == nil {
		return nil
	}
	return unsafe.Slice((*Request)(requests), count)
}

// IOCord is io_cord: a thread that makes the operations of goroutines.
type IOCord struct{ cord *C.io_cord }

// StartIOCord starts one.
func StartIOCord() (IOCord, int) {
	var cord IOCord
	result := int(C.io_cord_start(&cord.cord))
	return cord, result
}

// Submit asks for an operation. Any goroutine.
func (c IOCord) Submit(request *Request) int {
	return int(C.raw_submit(unsafe.Pointer(c.cord), unsafe.Pointer(request)))
}

// Descriptor is readable after Sleep, when there is something done.
func (c IOCord) Descriptor() int { return int(c.cord.told) }

// Done takes the requests that are done and calls back for each; false if there are none. One goroutine.
func (c IOCord) Done(done func(*Request)) bool {
	request := (*Request)(atomic.SwapPointer((*unsafe.Pointer)(unsafe.Pointer(&c.cord.done)), nil))
	if request == nil {
		return false
	}
	for request != nil {
		next := (*Request)(request.next) // before it is asked for again
		done(request)
		request = next
	}
	return true
}

// Sleep says that the descriptor is to tell of what is done from now on. Done must be called once more before it is waited
// for.
func (c IOCord) Sleep() { atomic.StoreInt32((*int32)(unsafe.Pointer(&c.cord.asleep)), 1) }

// Interrupt is fiber_interrupt without a value. From any thread.
func Interrupt(fiber Fiber) int { return int(C.raw_interrupt(C.uint64_t(fiber))) }
