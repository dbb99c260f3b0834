// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// The I/O of ordinary goroutines: one cord for all of the process, on a thread of C's, makes what would block, and a
// goroutine wakes those that wait for it.

package fiberrt

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/raw"
)

const requestsOfBlock = 64 // requests that are made at once

// One operation of a goroutine at a time.
type request struct {
	*raw.Request
	done   chan struct{} // of capacity 1
	pinner runtime.Pinner
}

var ioCord struct {
	sync.Mutex
	raw.IOCord
	started bool
	free    []*request
	all     []*request // by User - 1
}

// A request, with its fiber made; or -errno.
func takeRequest() (*request, int64) {
	c := &ioCord
	c.Lock()
	if n := len(c.free); n > 0 {
		r := c.free[n-1]
		c.free = c.free[:n-1]
		c.Unlock()
		return r, 0
	}
	r, result := newRequest()
	c.Unlock()
	if result < 0 {
		return nil, int64(result)
	}
	r.Code = raw.OpNone // so that its fiber is known, to whoever interrupts it
	if result := r.run(); result < 0 {
		r.end()
		return nil, result
	}
	return r, 0
}

func newRequest() (*request, int) {
	c := &ioCord
	if !c.started {
		cord, result := raw.StartIOCord()
		if result < 0 {
			return nil, result
		}
		c.IOCord, c.started = cord, true
		go tellDone(cord, os.NewFile(uintptr(cord.Descriptor()), "eventfd"))
	}
	block := raw.NewRequests(requestsOfBlock)
	if block == nil {
		return nil, -int(syscall.ENOMEM)
	}
	for i := range block {
		r := &request{Request: &block[i], done: make(chan struct{}, 1)}
		c.all = append(c.all, r)
		r.User = uintptr(len(c.all))
		c.free = append(c.free, r)
	}
	r := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	return r, 0
}

func (r *request) end() {
	ioCord.Lock()
	defer ioCord.Unlock()
	ioCord.free = append(ioCord.free, r)
}

// Has the operation made, and waits for its end.
func (r *request) run() int64 {
	if result := ioCord.Submit(r.Request); result < 0 {
		return int64(result)
	}
	<-r.done
	return r.Result
}

// The same of a transfer, whose buffer may not move meanwhile.
func (r *request) transfer(code uint32, fd int, p []byte, mode int32, timeoutNs int64) int64 {
	setTransfer(&r.Op, code, fd, mode, timeoutNs)
	if len(p) > 0 {
		r.pinner.Pin(unsafe.SliceData(p))
		r.Address, r.Length = unsafe.Pointer(unsafe.SliceData(p)), uint64(len(p))
	}
	result := r.run()
	r.Address = nil
	r.pinner.Unpin()
	return result
}

// Ends its operation early, or the next one, with -EINTR.
func (r *request) kick() { raw.Interrupt(r.Fiber) }

// What all transfers set of an operation but the buffer.
func setTransfer(op *raw.Op, code uint32, fd int, mode int32, timeoutNs int64) {
	op.Code, op.Fd, op.Mode, op.Flags, op.Length = code, int32(fd), mode, 0, 0
	if timeoutNs != raw.Forever {
		op.Flags, op.TimeoutNs = raw.OpTimed, timeoutNs
	}
}

// Wakes the goroutines whose operations are done.
func tellDone(cord raw.IOCord, told *os.File) {
	var count [8]byte
	tell := func(done *raw.Request) {
		ioCord.Lock()
		r := ioCord.all[done.User-1]
		ioCord.Unlock()
		r.done <- struct{}{}
	}
	for {
		if cord.Done(tell) {
			continue
		}
		cord.Sleep()
		if !cord.Done(tell) {
			told.Read(count[:]) // if that fails they are looked for once more
		}
	}
}
