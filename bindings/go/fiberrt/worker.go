// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"iter"
	"runtime/debug"

	"example.com/fiberrt/bindings/go/internal/self"
)

// A coroutine that runs fibers, one after the other. Only the hub, on its thread, makes and resumes it.
type worker struct {
	hub     *hub
	fiber   *Fiber // that it runs; nil: none
	g       uintptr
	exiting bool // a fiber's function has called Goexit: the rest of its life is in deferred functions
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
}

// A worker that waits for its fiber.
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
			w.serve()
		}
	})
	w.next()
	return w
}

// Runs fibers until the hub stops it.
func (w *worker) serve() {
	stopped := false
	// A Goexit goes no further than this while there is work: iter.Pull would pass it on to the hub.
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
		w.ends(w.fiber.call())
		stopped = !w.yield(struct{}{})
	}
}

// Tells the hub, in whose turn this is, that the fiber has ended.
func (w *worker) ends(outcome error) {
	w.fiber.outcome = outcome
	w.fiber = nil
	w.hub.turnEnded = true
}

// Runs the function, and returns nil or its panic.
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

// Stops the workers. One that is exiting takes the hub with it: the rest is done by deferred functions.
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
