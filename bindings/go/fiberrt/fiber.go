// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/raw"
	"example.com/fiberrt/bindings/go/internal/self"
)

// After so many calls of Reschedule, or other calls that did not have to wait, one goes through the cord.
const callsAlone = 256

// Fiber is a function that runs on the thread of its [Run]. Other fibers run while it waits or reschedules in the calls
// of this package.
type Fiber struct {
	// The members that Reschedule uses come first, in one cache line.
	hub       *hub
	resume    func() (struct{}, bool) // runs the fiber until it gives way; nil before its first turn and after its end
	giveWay   func(struct{}) bool     // gives the thread back to the hub, until the next turn
	g         uintptr                 // its goroutine
	calls     uint32                  // calls that may not have waited
	callbacks int32                   // callbacks from C that it is in
	pending   atomic.Bool             // it may be cancelled: its next call must go through the cord

	op     *raw.Op // the operation that it waits for
	result int64   // the result of the operation
	worker *worker // the coroutine that runs it; nil before its first turn and after its end
	fn     func(f *Fiber)
	entry  uintptr // the address of the user's function
	number uint64
	handle raw.Fiber

	receiver, sender any // *receiver[T], *sender[T] of its last waits on channels, to be reused

	region  context.Context // of WithContext, or nil
	group   *Group          // the group that made it, or nil
	place   int             // its index in Group.children
	verdict error           // the result of its function in a group
	stale   int             // interrupts that came after their operation had ended, and will end the next one
	seen    atomic.Bool     // its outcome was reported
	ended   atomic.Bool     // outcome is set
	outcome error

	mu        sync.Mutex
	joiners   []raw.Fiber
	finished  chan struct{}   // closed at its end; made on demand
	ctx       context.Context // the result of Context, or nil
	stopCtx   context.CancelCauseFunc
	cancelled bool
	cause     error   // the cause of the cancel
	name      *string // of SetName, or nil

	meter atomic.Pointer[meter] // made while accounting is on
}

// Spawn makes a fiber that will run fn in its turn. Spawn always returns a fiber: if none could be made, the returned
// fiber has ended, and [Fiber.Join] returns the reason.
func (f *Fiber) Spawn(fn func(f *Fiber)) *Fiber {
	f.check("Spawn")
	return f.hub.spawn(fn, entryOf(fn))
}

// Reschedule lets every fiber that is runnable now have a turn, and returns, as [runtime.Gosched] does for goroutines.
func (f *Fiber) Reschedule() error {
	f.check("Reschedule")
	f.calls++
	// Fibers spawned or woken before are in the cord's queue, and must run first.
	if f.pending.Load() || f.calls%callsAlone == 0 || f.hub.asked {
		return f.ask("Reschedule", raw.OpReschedule)
	}
	f.hub.ready.push(f)
	f.giveWay(struct{}{})
	return nil
}

// Gives the others a turn now and then, for calls that may not have to wait. Returns the error of a cancel.
func (f *Fiber) pace(call string) error {
	if f.calls++; f.calls%callsAlone != 0 && !f.pending.Load() {
		return nil
	}
	return f.ask(call, raw.OpReschedule)
}

// Sleep waits for at least d.
func (f *Fiber) Sleep(d time.Duration) error {
	f.check("Sleep")
	f.op.Number = int64(max(d, 0))
	return f.ask("Sleep", raw.OpSleep)
}

// Join waits until other has ended, and returns its outcome: nil; a [*PanicError]; [ErrGoexit]; or an [Error] if other
// was cancelled before its first turn, or could not be made. If f's wait ends early, Join also returns an [Error]; then
// other.[Fiber.Ended] is false. other may belong to another Run, and may be joined several times.
func (f *Fiber) Join(other *Fiber) error {
	f.check("Join")
	if other == f {
		return failure("Join", -int64(syscall.EDEADLK))
	}
	for other.join(f.handle) {
		if err := f.park("Join", inJoin, uint64(other.handle)); err != nil && !other.ended.Load() {
			other.leave(f.handle)
			return err
		}
	}
	return other.told()
}

// Wait is [Fiber.Join] for goroutines that are not fibers. When ctx is done, Wait returns its cause. Anywhere except in
// fibers: Wait would block their thread.
func (f *Fiber) Wait(ctx context.Context) error {
	select {
	case <-f.Done():
		return f.told()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done is closed when the fiber has ended. Anywhere.
func (f *Fiber) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.finished == nil {
		f.finished = make(chan struct{})
		if f.ended.Load() {
			close(f.finished)
		}
	}
	return f.finished
}

// Ended tells whether the fiber has ended. Anywhere.
func (f *Fiber) Ended() bool { return f.ended.Load() }

// Cancel cancels the fiber: its present wait and every later one end with an error that is [context.Canceled], and its
// [Fiber.Context] is done. If the fiber has had no turn yet, its function never runs. Anywhere.
func (f *Fiber) Cancel() { f.cancel(context.Canceled) }

func (f *Fiber) cancel(cause error) {
	f.mu.Lock()
	if f.cancelled || f.ended.Load() {
		f.mu.Unlock()
		return
	}
	f.cancelled, f.cause = true, cause
	stop := f.stopCtx
	f.pending.Store(true)
	f.mu.Unlock()
	if stop != nil {
		stop(cause)
	}
	raw.Cancel(f.handle)
}

// Panics unless the fiber's own goroutine calls: a call from another goroutine would break the runtime.
func (f *Fiber) check(call string) {
	if self.G() != f.g || f.callbacks > 0 {
		f.misused(call)
	}
}

func (f *Fiber) misused(call string) {
	switch {
	case f.ended.Load():
		panic("fiberrt: " + call + " of a fiber that has ended")
	case self.G() == f.g:
		panic("fiberrt: " + call + " inside a callback from C, which must not give way")
	default:
		panic("fiberrt: " + call + " by a goroutine that is not this fiber; use the fiber that was given to the function")
	}
}

// Parks the fiber until it is woken. It may return without reason, so the caller must check its condition again. why is
// the reason that dumps tell. about is the handle of a fiber, or the address of something else, that f waits for; 0:
// the reason says enough.
func (f *Fiber) park(call string, why raw.Text, about uint64) error {
	f.op.Flags, f.op.Address, f.op.Target = raw.OpReason, unsafe.Pointer(why), about
	result := f.wait(raw.OpPark)
	f.op.Flags, f.op.Address = 0, nil
	if result < 0 {
		return f.why(call, result)
	}
	return nil
}

// Starts the fiber's operation, with all members of the record except the code set by the caller, and waits for its
// end.
func (f *Fiber) ask(call string, code uint32) error {
	if result := f.wait(code); result < 0 {
		return f.why(call, result)
	}
	return nil
}

func (f *Fiber) wait(code uint32) int64 {
	h := f.hub
	for {
		if !h.broken {
			h.start(f.op, f.handle, f.number, code)
			f.giveWay(struct{}{})
		}
		if h.broken {
			return -int64(syscall.ESHUTDOWN)
		}
		if f.result != -int64(syscall.EINTR) || f.stale == 0 {
			return f.result
		}
		f.stale-- // a stale interrupt ended the operation before it began: start it again
	}
}

// Returns the error for a negative result.
func (f *Fiber) why(call string, result int64) error {
	if f.hub.broken {
		return ErrStopped
	}
	err := &Error{Call: call, Errno: syscall.Errno(-result)}
	if err.Errno == syscall.ECANCELED {
		f.mu.Lock()
		err.Cause = f.cause
		if !f.cancelled && f.region != nil {
			err.Cause = context.Cause(f.region)
		}
		f.mu.Unlock()
		if err.Cause == context.Canceled {
			err.Cause = nil
		}
	}
	return err
}

// Adds a fiber to those that wait for the end of f. Returns false if f has ended.
func (f *Fiber) join(joiner raw.Fiber) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended.Load() {
		return false
	}
	if !slices.Contains(f.joiners, joiner) {
		f.joiners = append(f.joiners, joiner)
	}
	return true
}

// Removes a fiber from those that wait for the end of f.
func (f *Fiber) leave(joiner raw.Fiber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.joiners = slices.DeleteFunc(f.joiners, func(j raw.Fiber) bool { return j == joiner })
}

// Returns the outcome and notes that it was reported.
func (f *Fiber) told() error {
	f.seen.Store(true)
	return f.outcome
}

// Marks f as ended, and returns the fibers that wait for it.
func (f *Fiber) end() []raw.Fiber {
	f.mu.Lock()
	joiners, stop := f.joiners, f.stopCtx
	f.joiners, f.stopCtx, f.fn = nil, nil, nil
	f.ended.Store(true)
	if f.finished != nil {
		close(f.finished)
	}
	f.mu.Unlock()
	if stop != nil {
		stop(context.Canceled)
	}
	return joiners
}

// Ends a fiber that could not be made.
func (f *Fiber) stillborn(result int) *Fiber {
	f.outcome = failure("Spawn", int64(result))
	f.end()
	return f
}

// Sets the outcome of a fiber that was cancelled before its first turn, or whose hub has stopped.
func (f *Fiber) neverRan() {
	f.outcome = f.why("Spawn", -int64(syscall.ECANCELED))
}
