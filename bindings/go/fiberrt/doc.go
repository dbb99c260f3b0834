// SPDX-License-Identifier: MIT OR Apache-2.0

// Package fiberrt calls C and C++ code that waits, by the thousand, without a thread for each call: see [Cord]. It also
// runs Go functions as fibers: all on one thread, one at a time, in a deterministic order. A fiber runs until it waits
// or reschedules in a call of this package.
//
//	err := fiberrt.Run(ctx, func(f *fiberrt.Fiber) {
//		child := f.Spawn(func(f *fiberrt.Fiber) { f.Sleep(time.Second) })
//		f.Join(child)
//	})
//
// Between two such calls no other fiber of the same [Run] runs, so data that these fibers share needs no lock.
//
// # Fibers and goroutines
//
// Only the fiber's own function may call the methods of a [Fiber] that wait. A call from another goroutine panics, and
// so does a call inside a callback from C (see [Callback]). Any goroutine may call a method whose comment says
// "Anywhere".
//
// A fiber must not block in another way: a channel operation, a mutex or a read from a socket of package net stops all
// fibers of the Run. Use [Recv] and [Send] for channels, and [Await] to run blocking code on a separate goroutine while
// the other fibers continue. A fiber must not call [runtime.LockOSThread], because its Run has locked the thread
// already.
//
// # Cancellation and panics
//
// A fiber is cancelled by [Fiber.Cancel], when the context of [Run] is done, or when the context of
// [Fiber.WithContext] is done. Its present wait and all later ones then return an error that is [context.Canceled]. A
// panic ends only the fiber, and [Fiber.Join] returns it. A panic that no call has returned when all fibers have ended
// is passed on by Run. Run returns when all fibers have ended.
//
// # Look inside
//
// [Dump], [WriteDump] and [ReadDump] tell what all fibers do, and [Fiber.Info] what one does: its name, its state, in
// which call it waits, and its stack. [StartAccounting] measures how long fibers run and wait, and [StartTrace] writes
// when they do. [WriteMetrics] is for monitoring, and [StartAgent] for the program fiberrt-top.
package fiberrt
