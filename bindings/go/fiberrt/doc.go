// SPDX-License-Identifier: MIT OR Apache-2.0

// Package fiberrt runs Go functions as fibers of a cord: on one thread, one at a time, in an order that is always the
// same, each until it gives way in a call of this package.
//
//	err := fiberrt.Run(ctx, func(f *fiberrt.Fiber) {
//		child := f.Spawn(func(f *fiberrt.Fiber) { f.Sleep(time.Second) })
//		f.Join(child)
//	})
//
// Between two such calls no other fiber of the same [Run] does anything: what they share needs no lock.
//
// # Fibers and goroutines
//
// The methods of a [Fiber] that wait are for its own function: each call takes the fiber that makes it. Called by another
// goroutine they panic, and so they do inside a callback that C makes by [Callback]. Methods that say "anywhere" are for
// all goroutines.
//
// A fiber must not block in another way: a channel, a mutex, a read from a socket of package net stops all fibers of its
// Run. [Await] runs such code on a goroutine of its own while others go on, and [Recv] and [Send] are for channels. Nor
// may it call [runtime.LockOSThread], whose thread is its hub's already.
//
// # Ends
//
// A fiber is cancelled by [Fiber.Cancel], or with the context of [Run], or that of [Fiber.WithContext]: its present call
// and later ones then return an error that is [context.Canceled]. A panic ends the fiber alone, and is told to who joins
// it; one of which nobody was told is Run's in the end. Run returns when all fibers have ended.
package fiberrt
