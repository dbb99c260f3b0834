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

	"example.com/fiberrt/bindings/go/internal/raw"
	"example.com/fiberrt/bindings/go/internal/self"
)

// Every so manieth yield, or other call that need not wait, is one that the cord knows of.
const callsAlone = 256

// Fiber is a function that runs on the thread of its [Run], and gives way to others in the calls of this package.
type Fiber struct {
	// What a yield needs comes first, in one line of the cache.
	hub       *hub
	resume    func() (struct{}, bool) // runs it on, until it gives way; nil before its first turn and after its end
	giveWay   func(struct{}) bool     // gives the thread back to the hub, until the next turn
	g         uintptr                 // of the goroutine that is it
	calls     uint32                  // that need not have waited
	callbacks int32                   // of C's that it is in
	attention atomic.Bool             // it may be cancelled: the cord is to be asked

	op     *raw.Op // for what it waits for
	result int64   // of that
	worker *worker // what runs it; nil as resume is
	fn     func(f *Fiber)
	number uint64
	handle raw.Fiber

	receiver, sender any // *receiver[T], *sender[T]: what its last waits on channels were, to be used again

	region  context.Context // of WithContext, or nil
	group   *Group          // that it was made in, or nil
	place   int             // in Group.children
	verdict error           // of its function in a group
	stale   int             // interrupts that came too late for what they were to end, and are in the next one's way
	seen    atomic.Bool     // somebody was told of its outcome
	ended   atomic.Bool     // outcome is there
	outcome error

	mu        sync.Mutex
	joiners   []raw.Fiber
	finished  chan struct{}   // closed at its end; made when it is asked for
	ctx       context.Context // what Context gives, or nil
	stopCtx   context.CancelCauseFunc
	cancelled bool
	cause     error // why it was cancelled
}

// Spawn makes a fiber that will run fn when its turn comes. If none can be made the one that is returned has ended, and
// [Fiber.Join] tells why.
func (f *Fiber) Spawn(fn func(f *Fiber)) *Fiber {
	f.check("Spawn")
	return f.hub.spawn(fn)
}

// Yield gives all fibers that have a turn now that turn, then goes on.
func (f *Fiber) Yield() error {
	f.check("Yield")
	f.calls++
	// Who was spawned or woken before is in the cord's queue, and comes first.
	if f.attention.Load() || f.calls%callsAlone == 0 || f.hub.asked {
		return f.ask("Yield", raw.OpReschedule)
	}
	f.hub.ready.push(f)
	f.giveWay(struct{}{})
	return nil
}

// Gives way now and then, in calls that have not waited.
func (f *Fiber) pace(call string) error {
	if f.calls++; f.calls%callsAlone != 0 && !f.attention.Load() {
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

// Join waits until other has ended, and returns how: nil; a [*PanicError]; [ErrGoexit]; or an [Error] if it was cancelled
// before its first turn, or could not be made. If f's wait ends early that is an [Error], too; other.[Fiber.Ended] tells
// them apart. It may be a fiber of another Run, and be joined often.
func (f *Fiber) Join(other *Fiber) error {
	f.check("Join")
	if other == f {
		return failure("Join", -int64(syscall.EDEADLK))
	}
	for other.join(f.handle) {
		if err := f.park("Join"); err != nil && !other.ended.Load() {
			other.leave(f.handle)
			return err
		}
	}
	return other.told()
}

// Wait is [Fiber.Join] for goroutines that are not fibers; ctx bounds it. Anywhere but in fibers, whose thread it blocks.
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

// Cancel cancels the fiber, for good: its present wait ends with an error that is [context.Canceled], and so does every
// later one. If it has had no turn yet, its function never runs. Its [Fiber.Context] is done. Anywhere.
func (f *Fiber) Cancel() { f.cancel(context.Canceled) }

func (f *Fiber) cancel(cause error) {
	f.mu.Lock()
	if f.cancelled || f.ended.Load() {
		f.mu.Unlock()
		return
	}
	f.cancelled, f.cause = true, cause
	stop := f.stopCtx
	f.attention.Store(true)
	f.mu.Unlock()
	if stop != nil {
		stop(cause)
	}
	raw.Cancel(f.handle)
}

// SetName names the fiber, for [Dump]. Up to 31 bytes are kept.
func (f *Fiber) SetName(name string) {
	f.check("SetName")
	raw.SetName(f.handle, name)
}

// The methods that wait are for the fiber's own goroutine: any other would break the runtime.
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

// Waits until somebody wakes the fiber, or for nothing: the caller looks whether what it waits for is there.
func (f *Fiber) park(call string) error { return f.ask(call, raw.OpYield) }

// Makes an operation of the record, whose members but the code are set, and waits for its end.
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
		f.stale-- // it came at once, so it may be asked for as before
	}
}

// The error of a result.
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

// Puts a fiber in line for the end of f; false if f has ended.
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

// Takes a fiber out of that line.
func (f *Fiber) leave(joiner raw.Fiber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.joiners = slices.DeleteFunc(f.joiners, func(j raw.Fiber) bool { return j == joiner })
}

// The outcome, of which somebody is told now.
func (f *Fiber) told() error {
	f.seen.Store(true)
	return f.outcome
}

// Notes that f has ended, and returns the fibers that wait for it.
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

// A fiber that could not be made.
func (f *Fiber) stillborn(result int) *Fiber {
	f.outcome = failure("Spawn", int64(result))
	f.end()
	return f
}

// The same of one that was cancelled before its first turn, or whose hub has stopped.
func (f *Fiber) neverRan() {
	f.outcome = f.why("Spawn", -int64(syscall.ECANCELED))
}
