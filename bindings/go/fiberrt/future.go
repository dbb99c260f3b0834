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

// Future is what comes of a C function that [Cord.SpawnC] has started. Its methods may be called anywhere, also by several
// goroutines, but for [Future.WaitOn].
type Future struct {
	cord *Cord
	call string

	mu        sync.Mutex
	task      *raw.Task // as long as it has not ended
	ended     bool
	result    int64
	err       error // of a negative result
	cancelled bool
	cause     error         // why it was cancelled
	finished  chan struct{} // closed at its end; made when it is asked for
	joiners   []raw.Fiber
	unfollow  func() bool
}

// Wait waits until the function has returned, and returns its result, with an [Error] if that is negative. When ctx is done
// it stops waiting, and returns the cause of that: the function goes on, and may be waited for again; [Future.Cancel] ends
// it. A result that is there counts more than ctx.
//
// A fiber uses [Future.WaitOn].
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

// WaitOn is [Future.Wait] for the fiber f, while others of its [Run] go on. If f's wait ends early the error is that of f's
// other waits, and the function goes on; [Future.Ended] tells this from an end with such an error.
func (u *Future) WaitOn(f *Fiber) (int64, error) {
	f.check("WaitOn")
	if err := f.pace("WaitOn"); err != nil {
		return 0, err
	}
	f.hub.handOff = true
	for u.join(f.handle) {
		if err := f.park("WaitOn"); err != nil && u.leave(f.handle) {
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

// Cancel cancels the fiber, as fiber_cancel does: its present wait ends with ECANCELED, and so does every later one. If it
// has had no turn yet the function never runs, and the result is ECANCELED. What the function then returns is its own:
// who wants to know waits.
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

// The result, when it has ended.
func (u *Future) outcome() (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.result, u.err
}

// Notes the end.
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
		raw.Wake(joiner)
	}
}

func (u *Future) failure(result int64) error {
	err := &Error{Call: u.call, Errno: syscall.Errno(-result)}
	if err.Errno == syscall.ECANCELED {
		err.Cause = u.cause
	}
	return err
}

// The same of one that could not be started.
func (u *Future) stillborn(err *Error) *Future {
	u.err = err
	u.end(-int64(err.Errno))
	return u
}

// Cancels it when ctx is done.
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

// Puts a fiber in line for the end; false if that has come.
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

// Takes a fiber out of that line; false if the end has come.
func (u *Future) leave(joiner raw.Fiber) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.joiners = slices.DeleteFunc(u.joiners, func(j raw.Fiber) bool { return j == joiner })
	return !u.ended
}
