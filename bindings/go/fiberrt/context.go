// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"errors"
	"syscall"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Context is done when the fiber is cancelled, or the context of its [Run], or that of the [Fiber.WithContext] around; and
// when it has ended. For what a fiber asks of goroutines. Anywhere.
func (f *Fiber) Context() context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.region != nil {
		return f.region
	}
	if f.ctx == nil {
		f.ctx, f.stopCtx = context.WithCancelCause(f.hub.ctx)
		switch {
		case f.cancelled:
			f.stopCtx(f.cause)
		case f.ended.Load():
			f.stopCtx(context.Canceled)
		}
	}
	return f.ctx
}

// WithContext calls fn, bounded by ctx: when that is done the calls of f in fn are ended and refused with an error that is
// [context.Canceled] and ctx's cause, until fn returns. Its result is fn's.
func (f *Fiber) WithContext(ctx context.Context, fn func() error) error {
	f.check("WithContext")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var scope raw.Scope
	if result := raw.ScopeOpenIn(f.handle, &scope, raw.Forever, 0); result < 0 {
		return failure("WithContext", int64(result))
	}
	// In fn, f's context is the one that is done with either.
	outer := f.Context()
	inner, cancel := context.WithCancelCause(outer)
	before := f.enter(inner)
	stop := context.AfterFunc(ctx, func() {
		cancel(context.Cause(ctx))
		f.attention.Store(true)
		raw.ScopeCancel(scope)
	})
	defer func() {
		stop()
		raw.ScopeCloseIn(f.handle, scope)
		f.enter(before)
		cancel(context.Canceled)
	}()
	return fn()
}

// Makes ctx what Context gives; returns what it was, nil for the fiber's own.
func (f *Fiber) enter(ctx context.Context) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.region
	f.region = ctx
	return before
}

func (f *Fiber) isCancelled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cancelled
}

// Calls fn in a shield: neither a cancel nor the end of a context reaches what it waits for.
func (f *Fiber) shielded(call string, fn func() error) error {
	var scope raw.Scope
	if result := raw.ScopeOpenIn(f.handle, &scope, raw.Forever, raw.ScopeShield); result < 0 {
		return failure(call, int64(result))
	}
	defer raw.ScopeCloseIn(f.handle, scope)
	return fn()
}

// Tells whether a wait of f ended since f is to go no further.
func stopped(err error) bool { return errors.Is(err, syscall.ECANCELED) }
