// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"slices"
	"sync"
	"syscall"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Future is the result of a C function that [Cord.SpawnC] has started. Several goroutines may use it at the same time.
// Its methods may be called anywhere, except [Future.WaitOn].
type Future struct {
	cord *Cord
	call string

	mu        sync.Mutex
	task      *raw.Task // nil after the end
	ended     bool
	result    int64
	err       error // for a negative result
	cancelled bool
	cause     error         // the cause of the cancel
	finished  chan struct{} // closed at the end; made on demand
	joiners   []raw.Fiber
	unfollow  func() bool
}

// Wait waits until the function has returned, and returns its result, with an [Error] if the result is negative. If ctx
// is done before, Wait returns the cause of ctx; the function continues, and may be waited for again or ended by
// [Future.Cancel]. If the function has returned already, Wait returns its result even if ctx is done.
//
// A fiber must use [Future.WaitOn].
func (u *Future) Wait(ctx context.Context) (int64, error) {
	done := u.Done()
	select {
	case <-done:
		return u.outcome()
	default:
	}
	select {
	case <-done:
		return u.outcome()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// WaitOn is [Future.Wait] for the fiber f: other fibers of its [Run] continue meanwhile. If f's wait ends early, WaitOn
// returns the same errors as f's other waits, and the function continues. [Future.Ended] tells this from a function
// that ended with such an error.
func (u *Future) WaitOn(f *Fiber) (int64, error) {
	f.check("WaitOn")
	if err := f.pace("WaitOn"); err != nil {
		return 0, err
	}
	f.hub.handOff = true
	for u.join(f.handle) {
		if err := f.park("WaitOn", inWaitOn, 0); err != nil && u.leave(f.handle) {
			return 0, err
		}
	}
	return u.outcome()
}

// Done is closed when the function has returned.
func (u *Future) Done() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.finished == nil {
		u.finished = make(chan struct{})
		if u.ended {
			close(u.finished)
		}
	}
	return u.finished
}

// Ended tells whether the function has returned.
func (u *Future) Ended() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

// Cancel cancels the function's fiber, as fiber_cancel does: its present wait and every later one end with ECANCELED.
// If the fiber has had no turn yet, the function never runs, and the result is ECANCELED. Otherwise the function itself
// decides its result; [Future.Wait] returns it.
func (u *Future) Cancel() { u.cancel(nil) }

func (u *Future) cancel(cause error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return
	}
	if !u.cancelled {
		u.cancelled, u.cause = true, cause
	}
	u.cord.thread.Cancel(u.task)
}

// Returns the result of a future that has ended.
func (u *Future) outcome() (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.result, u.err
}

// Ends the future with a result, and wakes the goroutines and fibers that wait for it.
func (u *Future) end(result int64) {
	u.mu.Lock()
	joiners, unfollow := u.joiners, u.unfollow
	if result < 0 && u.err == nil {
		u.err = u.failure(result)
	}
	u.ended, u.result, u.task, u.joiners, u.unfollow = true, result, nil, nil, nil
	if u.finished != nil {
		close(u.finished)
	}
	u.mu.Unlock()
	if unfollow != nil {
		unfollow()
	}
	for _, joiner := range joiners {
		raw.Wakeup(joiner)
	}
}

func (u *Future) failure(result int64) error {
	err := &Error{Call: u.call, Errno: syscall.Errno(-result)}
	if err.Errno == syscall.ECANCELED {
		err.Cause = u.cause
	}
	return err
}

// Ends a future whose function could not be started.
func (u *Future) stillborn(err *Error) *Future {
	u.err = err
	u.end(-int64(err.Errno))
	return u
}

// Cancels the function when ctx is done.
func (u *Future) follow(ctx context.Context) {
	unfollow := context.AfterFunc(ctx, func() { u.cancel(context.Cause(ctx)) })
	u.mu.Lock()
	ended := u.ended
	if !ended {
		u.unfollow = unfollow
	}
	u.mu.Unlock()
	if ended {
		unfollow()
	}
}

// Adds a fiber to those that wait for the end. Returns false if the future has ended.
func (u *Future) join(joiner raw.Fiber) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return false
	}
	if !slices.Contains(u.joiners, joiner) {
		u.joiners = append(u.joiners, joiner)
	}
	return true
}

// Removes a fiber from those that wait for the end. Returns false if the future has ended.
func (u *Future) leave(joiner raw.Fiber) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.joiners = slices.DeleteFunc(u.joiners, func(j raw.Fiber) bool { return j == joiner })
	return !u.ended
}
