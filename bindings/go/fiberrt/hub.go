// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// The hub of a Run: a goroutine locked to the thread of the cord. It resumes the fibers, collects the operations that
// they start, and passes these to the cord in one fiber_exchange.

package fiberrt

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/raw"
)

const (
	turnsOfExchange = 256 // the most operations, and the most turns, of one exchange
	turnsAlone      = 256 // turns after which the hub makes an exchange, even without an operation
	opsOfBlock      = 64  // operation records allocated at once
	workersKept     = 256 // the most idle coroutines that are kept for the next fibers
	service         = 1   // the number of the hub's own hosted fiber; the fibers have the numbers after it
)

type hub struct {
	ctx      context.Context
	turns    *raw.Turns
	nops     int // operations for the next exchange
	attr     raw.Attr
	names    map[uintptr]raw.Text // of fibers, by their functions
	nameLast struct {
		entry uintptr
		text  raw.Text
	}
	fibers []*Fiber // by number - 1; nil: the number is free
	free   []uint64 // free numbers
	live   int
	turnOf *Fiber // the fiber that runs
	ready  queue  // runnable fibers
	alone  int    // turns since the last exchange
	asked  bool   // the cord has work: a fiber was spawned or woken

	turnEnded bool // the fiber that runs has ended

	records []*raw.Op  // free records, for the next fibers
	blocks  [][]raw.Op // all records, freed at the end
	ended   []*raw.Op  // records of ended fibers, until the next exchange reports the ends
	workers []*worker  // without a fiber

	round       uint64 // counts rounds: in one, each fiber that was ready has a turn
	lines       map[unsafe.Pointer]*chanLines
	freeLines   []*chanLines
	chanWaits   []*chanWait    // waits for other fibers
	helpers     []*helper      // without a job
	helping     sync.WaitGroup // for all helpers
	helpersNew  int            // helpers started so far
	helperJobs  int            // waits given to helpers so far
	helperLooks atomic.Bool    // a helper without a job looks for one

	handOff  bool // goroutines were started that should not wait for this one's processor
	oneProc  bool
	stopping bool  // all fibers are cancelled, also new ones
	broken   bool  // no exchange is possible: waits end with ErrStopped
	err      error // the result of Run

	serviceFiber raw.Fiber
	serviceOp    *raw.Op
	mu           sync.Mutex
	posted       []func() // functions from other goroutines, which the hub will call
	closed       bool
	done         chan struct{}
	main         *Fiber
	panicked     []*Fiber // fibers whose panic may not have been reported
}

// Run makes a cord, runs fn as its first fiber, and returns when all fibers of the cord have ended. When ctx is done,
// all fibers are cancelled.
//
// Run returns nil; or the cause of ctx, if ctx was done before the last fiber ended; or an [Error] if no cord could be
// made, as in the simulation (FIBERRT_BACKEND=sim).
//
// If fn panics, or another fiber whose panic no call reported, Run panics with a [*PanicError] after all fibers have
// ended. If fn calls runtime.Goexit, Run does too.
//
// Anywhere, but Run blocks the calling goroutine: a fiber must call it in [Await].
func Run(ctx context.Context, fn func(f *Fiber)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h := &hub{
		ctx: ctx, done: make(chan struct{}), oneProc: runtime.GOMAXPROCS(0) == 1,
		lines: map[unsafe.Pointer]*chanLines{}, names: map[uintptr]raw.Text{},
	}
	go h.lock(fn)
	<-h.done
	h.helping.Wait()
	for _, f := range h.panicked {
		if !f.seen.Load() {
			panic(f.outcome)
		}
	}
	if h.main != nil && h.main.outcome == ErrGoexit {
		runtime.Goexit()
	}
	return h.err
}

// Runs the hub on a locked thread, which ends with this goroutine, as does the cord. The process's first thread must
// not end, so the hub uses another one: this goroutine occupies the first thread until the other goroutine has its
// thread.
func (h *hub) lock(fn func(f *Fiber)) {
	runtime.LockOSThread()
	if syscall.Gettid() != syscall.Getpid() {
		h.run(fn)
		return
	}
	other := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(other)
		h.run(fn)
	}()
	<-other
	runtime.UnlockOSThread()
}

func (h *hub) run(fn func(f *Fiber)) {
	// Deferred, because stopping a worker whose function has called Goexit also ends the hub's goroutine.
	defer close(h.done)
	defer h.freeMemory()
	defer h.endHelpers()
	if result := h.open(); result < 0 {
		h.err = failure("Run", int64(result))
		return
	}
	defer h.stopWorkers()
	stop := context.AfterFunc(h.ctx, func() { h.post(h.cancelAll) })
	h.main = h.spawn(fn, entryOf(fn))
	if h.main.ended.Load() {
		h.err = h.main.outcome
	}
	h.loop()
	if !stop() && h.err == nil {
		h.err = context.Cause(h.ctx)
	}
	h.close()
}

func (h *hub) open() int {
	result := inSimulation()
	if result < 0 {
		return result
	}
	if h.attr, result = raw.Detached(); result < 0 {
		return result
	}
	if h.turns = raw.NewTurns(turnsOfExchange); h.turns == nil {
		return -int(syscall.ENOMEM)
	}
	if h.serviceOp, result = h.record(); result < 0 {
		return result
	}
	var self raw.Fiber
	if raw.Self(&self) == 0 {
		raw.SetName(self, nameOfHub)
		noticeAccounting(self)
	}
	h.fibers = append(h.fibers, nil)
	h.serviceFiber, result = raw.Spawn(h.attr, service, nameOfService)
	return result
}

// Ends the hub's own fiber. The exchanges for that also report the ends of the last fibers.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	raw.Wakeup(h.serviceFiber)
	for h.serviceOp != nil && !h.broken {
		h.exchange(raw.Forever)
	}
	h.exchange(0)
}

func (h *hub) freeMemory() {
	if h.attr != nil {
		raw.FreeAttr(h.attr)
	}
	if h.turns != nil {
		h.turns.Free()
	}
	if h.broken { // the cord may still write into the records
		return
	}
	for _, block := range h.blocks {
		raw.FreeOps(block)
	}
}

// Gives the fibers their turns until all have ended.
func (h *hub) loop() {
	for h.live > 0 {
		h.alone += h.ready.count
		h.round++
		for n := h.ready.count; n > 0; n-- {
			f := h.ready.pop()
			if f.resume != nil || h.begin(f) {
				h.turnOf = f
				if number := accounting.Load(); number != 0 {
					h.meteredTurn(f, number)
				} else {
					f.resume()
				}
				if h.turnEnded {
					h.end(f)
				}
			}
			if h.nops == turnsOfExchange {
				h.exchange(0)
			}
		}
		if len(h.chanWaits) > 0 && h.live > 0 {
			if h.ready.count == 0 {
				h.exchange(0)
			}
			if h.ready.count == 0 || h.round%roundsOfChanWait == 0 {
				h.expireChanWaits(h.ready.count == 0)
			}
		}
		switch {
		case h.live == 0:
		case h.ready.count == 0:
			if h.handOff {
				// A thread that sleeps in C keeps its Go processor for a while, and there may be no other.
				h.handOff = false
				if h.oneProc {
					runtime.Gosched()
				}
			}
			h.exchange(raw.Forever)
		case h.nops > 0 || h.asked || h.alone >= turnsAlone:
			h.exchange(0)
		}
	}
}

// Passes the started operations to the cord, and queues the fibers whose operations have ended.
func (h *hub) exchange(timeoutNs int64) {
	if h.broken {
		return
	}
	count := h.turns.Exchange(h.nops, timeoutNs)
	if count < 0 {
		h.refused(-syscall.Errno(count))
		return
	}
	h.told()
	for i := range h.turns.Out[:count] {
		c := &h.turns.Out[i]
		number := c.User
		if number == 0 { // an operation that could not be started
			number = c.Op.User
		}
		if number == service {
			h.serve()
			continue
		}
		f := h.fibers[number-1]
		f.result = c.Result
		h.ready.push(f)
	}
}

// Notes that the cord has received all operations.
func (h *hub) told() {
	h.nops, h.alone, h.asked = 0, 0, false
	h.records = append(h.records, h.ended...)
	h.ended = h.ended[:0]
}

// Handles a failed exchange. EDEADLK, which a simulation returns when no fiber can ever run again, cancels all fibers
// once. Any other error except EINTR breaks the hub.
func (h *hub) refused(errno syscall.Errno) {
	switch {
	case errno == syscall.EINTR:
		h.told()
	case errno == syscall.EDEADLK && !h.stopping:
		h.told()
		h.err = failure("Run", -int64(errno))
		h.cancelAll()
	default:
		h.err = failure("Run", -int64(errno))
		h.broken = true
		queued := map[*Fiber]bool{}
		for n := h.ready.count; n > 0; n-- {
			f := h.ready.pop()
			queued[f] = true
			h.ready.push(f)
		}
		for _, f := range h.fibers {
			if f != nil && !queued[f] {
				h.ready.push(f)
			}
		}
	}
}

// The turn of the hub's own fiber: it calls the posted functions and waits for more.
func (h *hub) serve() {
	h.mu.Lock()
	posted, closed := h.posted, h.closed
	h.posted = nil
	h.mu.Unlock()
	if closed {
		h.start(h.serviceOp, h.serviceFiber, service, raw.OpEnd)
		h.serviceOp = nil
		return
	}
	h.serviceOp.Flags, h.serviceOp.Address = raw.OpReason, unsafe.Pointer(inService)
	h.start(h.serviceOp, h.serviceFiber, service, raw.OpPark)
	for _, fn := range posted {
		fn()
	}
}

// Has the hub call fn between the turns of fibers. Anywhere. Does nothing after the end of the hub.
func (h *hub) post(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.posted = append(h.posted, fn)
	raw.Wakeup(h.serviceFiber)
}

func (h *hub) cancelAll() {
	h.stopping = true
	for _, f := range h.fibers {
		if f != nil {
			f.cancel(context.Cause(h.ctx))
		}
	}
	h.asked = true
}

// Adds an operation to the next exchange.
func (h *hub) start(op *raw.Op, fiber raw.Fiber, number uint64, code uint32) {
	if h.broken {
		return
	}
	op.Code = code
	op.Fiber = fiber
	op.User = uintptr(number)
	h.turns.Ops[h.nops] = op
	h.nops++
}

// Returns an unused operation record.
func (h *hub) record() (*raw.Op, int) {
	if len(h.records) == 0 {
		block, result := raw.NewOps(opsOfBlock)
		if result < 0 {
			return nil, result
		}
		h.blocks = append(h.blocks, block)
		for i := range block {
			h.records = append(h.records, &block[i])
		}
	}
	op := h.records[len(h.records)-1]
	h.records = h.records[:len(h.records)-1]
	return op, 0
}

// Returns a fiber that will run fn, with its first turn in the cord's queue; or a fiber that has ended with an error.
// entry is the address of the user's function, after which the fiber is named.
func (h *hub) spawn(fn func(f *Fiber), entry uintptr) *Fiber {
	f := &Fiber{hub: h, fn: fn, entry: entry}
	op, result := h.record()
	if result < 0 {
		return f.stillborn(result)
	}
	if len(h.free) == 0 {
		h.fibers = append(h.fibers, nil)
		h.free = append(h.free, uint64(len(h.fibers)))
	}
	number := h.free[len(h.free)-1]
	if f.handle, result = raw.Spawn(h.attr, number, h.nameOf(entry)); result < 0 {
		h.records = append(h.records, op)
		return f.stillborn(result)
	}
	h.free = h.free[:len(h.free)-1]
	f.op, f.number = op, number
	h.fibers[number-1] = f
	h.live++
	h.asked = true
	if h.stopping {
		f.cancel(context.Cause(h.ctx))
	}
	return f
}

// Gives a fiber a worker for its first turn. Returns false if the fiber must not run.
func (h *hub) begin(f *Fiber) bool {
	if f.isCancelled() || h.broken {
		f.neverRan()
		h.retire(f)
		return false
	}
	w := h.worker()
	w.fiber.Store(f)
	f.worker, f.resume, f.giveWay, f.g = w, w.next, w.yield, w.g
	return true
}

// Called after the turn in which a fiber ended. Its worker is kept for the next fiber, or stopped.
func (h *hub) end(f *Fiber) {
	h.turnEnded = false
	w := f.worker
	h.retire(f)
	if !w.exiting && len(h.workers) >= workersKept {
		w.stop()
	} else {
		h.workers = append(h.workers, w)
	}
}

// Frees the number and the record of a fiber that has ended, and wakes the fibers that wait for it.
func (h *hub) retire(f *Fiber) {
	f.worker, f.resume, f.giveWay, f.g = nil, nil, nil, 0
	h.start(f.op, f.handle, f.number, raw.OpEnd)
	h.ended = append(h.ended, f.op)
	f.op = nil
	h.fibers[f.number-1] = nil
	h.free = append(h.free, f.number)
	h.live--
	if f.group != nil {
		f.group.told(f)
	}
	if accounting.Load() != 0 {
		f.keepTimes()
	}
	for _, joiner := range f.end() {
		raw.Wakeup(joiner)
		h.asked = true
	}
	if _, ok := f.outcome.(*PanicError); ok {
		h.panicked = append(slices.DeleteFunc(h.panicked, func(f *Fiber) bool { return f.seen.Load() }), f)
	}
}

// A queue of fibers that grows as needed.
type queue struct {
	ring        []*Fiber // its length is a power of two
	head, count int
}

func (q *queue) push(f *Fiber) {
	if q.count == len(q.ring) {
		grown := make([]*Fiber, max(64, 2*len(q.ring)))
		n := copy(grown, q.ring[q.head:])
		copy(grown[n:], q.ring[:q.head])
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.count)&(len(q.ring)-1)] = f
	q.count++
}

func (q *queue) pop() *Fiber {
	f := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
	return f
}
