// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// The I/O of ordinary goroutines: one cord for the whole process makes the operations that would block.

package fiberrt

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/raw"
)

var ioCord struct {
	sync.Mutex
	cord *Cord
}

// Returns the cord. The first call starts it, and it is never closed.
func startedIOCord() (*Cord, int64) {
	ioCord.Lock()
	defer ioCord.Unlock()
	if ioCord.cord == nil {
		cord, err := StartCord("fiberrt-go-io")
		if err != nil {
			errno := syscall.EAGAIN
			errors.As(err, &errno)
			return nil, -int64(errno)
		}
		ioCord.cord = cord
	}
	return ioCord.cord, 0
}

// A goroutine that waits for an operation.
type request struct {
	cord   *Cord
	pinner runtime.Pinner

	mu     sync.Mutex
	future *Future // of the operation in progress, or nil
	kicked bool    // kick was called while no operation was in progress
}

func (r *request) transfer(code uint32, fd int, p []byte, mode int32, timeoutNs int64) int64 {
	future := r.begin(func(op *raw.Op) {
		setTransfer(op, code, fd, mode, timeoutNs)
		if len(p) > 0 { // the buffer must not move during the operation
			r.pinner.Pin(unsafe.SliceData(p))
			op.Address, op.Length = unsafe.Pointer(unsafe.SliceData(p)), uint64(len(p))
		}
	})
	if future == nil {
		return -int64(syscall.EINTR)
	}
	<-future.Done()
	r.mu.Lock()
	r.future = nil
	r.mu.Unlock()
	r.pinner.Unpin()
	if future.result == -int64(syscall.ECANCELED) { // by kick
		return -int64(syscall.EINTR)
	}
	return future.result
}

func (r *request) begin(set func(op *raw.Op)) *Future {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kicked {
		r.kicked = false
		return nil
	}
	r.future = r.cord.begin("I/O", set)
	return r.future
}

func (r *request) kick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.future != nil {
		r.future.Cancel()
	} else {
		r.kicked = true
	}
}

// Sets the members of an operation that all transfers use, except the buffer.
func setTransfer(op *raw.Op, code uint32, fd int, mode int32, timeoutNs int64) {
	op.Code, op.Fd, op.Mode, op.Flags, op.Length = code, int32(fd), mode, 0, 0
	if timeoutNs != raw.Forever {
		op.Flags, op.TimeoutNs = raw.OpTimed, timeoutNs
	}
}
