// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"iter"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/self"
)

// A coroutine that runs fibers, one after the other. Only the hub, on its thread, makes and resumes workers.
type worker struct {
	hub     *hub
	fiber   atomic.Pointer[Fiber] // the fiber that it runs, or nil
	g       uintptr
	exiting bool // a fiber's function called Goexit: from then on the worker runs in deferred functions
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
}

// Returns an idle worker.
func (h *hub) worker() *worker {
	if n := len(h.workers); n > 0 {
		w := h.workers[n-1]
		h.workers = h.workers[:n-1]
		return w
	}
	w := &worker{hub: h}
	w.next, w.stop = iter.Pull(func(yield func(struct{}) bool) {
		w.yield, w.g = yield, self.G()
		workers.Store(w.g, w)
		defer workers.Delete(w.g)
		if yield(struct{}{}) {
			runWorker([2]uintptr{uintptr(unsafe.Pointer(w))}, w.serve)
		}
	})
	w.next()
	return w
}

// Runs fibers until the hub stops it.
func (w *worker) serve() {
	stopped := false
	// Stops a Goexit here until the hub stops the worker: iter.Pull would pass it on to the hub.
	defer func() {
		if !stopped {
			w.exiting = true
			w.ends(ErrGoexit)
			if w.yield(struct{}{}) {
				w.serve()
			}
		}
	}()
	for !stopped {
		w.ends(w.fiber.Load().call())
		stopped = !w.yield(struct{}{})
	}
}

// Tells the hub, which has resumed this worker, that the fiber has ended.
func (w *worker) ends(outcome error) {
	w.fiber.Load().outcome = outcome
	w.fiber.Store(nil)
	w.hub.turnEnded = true
}

// Runs the fiber's function, and returns nil or its panic.
func (f *Fiber) call() (outcome error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if value := recover(); value != nil {
			outcome = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	f.fn(f)
	returned = true
	return nil
}

// Stops the workers. Stopping one that is exiting ends the hub's goroutine, so a deferred call stops the others.
func (h *hub) stopWorkers() {
	for len(h.workers) > 0 {
		w := h.workers[len(h.workers)-1]
		h.workers = h.workers[:len(h.workers)-1]
		if w.exiting {
			defer h.stopWorkers()
		}
		w.stop()
	}
}
