// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"errors"
	"syscall"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Context returns a context for goroutines that work for the fiber. It is done when the fiber is cancelled or has
// ended, and when the context of [Run] or of an enclosing [Fiber.WithContext] is done. Anywhere.
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

// WithContext calls fn, bounded by ctx, and returns its result. When ctx is done, the present call of f in fn and all
// later ones fail, until fn returns. Their error is [context.Canceled] and the cause of ctx.
func (f *Fiber) WithContext(ctx context.Context, fn func() error) error {
	f.check("WithContext")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var scope raw.Scope
	if result := raw.ScopeOpenIn(f.handle, &scope, raw.Forever, 0); result < 0 {
		return failure("WithContext", int64(result))
	}
	// In fn, f's context is done when the outer one or ctx is.
	outer := f.Context()
	inner, cancel := context.WithCancelCause(outer)
	before := f.enter(inner)
	stop := context.AfterFunc(ctx, func() {
		cancel(context.Cause(ctx))
		f.pending.Store(true)
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

// Sets the result of Context. Returns the former one, or nil for the fiber's own context.
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

// Calls fn in a shield: neither a cancel nor the end of a context ends its waits.
func (f *Fiber) shielded(call string, fn func() error) error {
	var scope raw.Scope
	if result := raw.ScopeOpenIn(f.handle, &scope, raw.Forever, raw.ScopeShield); result < 0 {
		return failure(call, int64(result))
	}
	defer raw.ScopeCloseIn(f.handle, scope)
	return fn()
}

// Tells whether a wait ended because of a cancel.
func stopped(err error) bool { return errors.Is(err, syscall.ECANCELED) }
