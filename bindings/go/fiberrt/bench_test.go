// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/ctest"
)

// The cost of a switch between fibers, to compare with a switch between as many goroutines.
func benchReschedule(b *testing.B, count int) {
	err := Run(context.Background(), func(f *Fiber) {
		group := f.Group()
		for range count {
			group.Go(func(f *Fiber) error {
				for range b.N / count {
					f.Reschedule()
				}
				return nil
			})
		}
		b.ResetTimer()
		group.Wait()
		b.StopTimer()
	})
	if err != nil {
		b.Fatal(err)
	}
}

func benchGosched(b *testing.B, count int) {
	var group sync.WaitGroup
	b.ResetTimer()
	for range count {
		group.Add(1)
		go func() {
			defer group.Done()
			for range b.N / count {
				runtime.Gosched()
			}
		}()
	}
	group.Wait()
}

func BenchmarkReschedule2(b *testing.B)     { benchReschedule(b, 2) }
func BenchmarkReschedule100(b *testing.B)   { benchReschedule(b, 100) }
func BenchmarkReschedule10000(b *testing.B) { benchReschedule(b, 10000) }
func BenchmarkGosched2(b *testing.B)        { benchGosched(b, 2) }
func BenchmarkGosched100(b *testing.B)      { benchGosched(b, 100) }
func BenchmarkGosched10000(b *testing.B)    { benchGosched(b, 10000) }

func BenchmarkChannelPingPong(b *testing.B) {
	there, back := make(chan int), make(chan int)
	go func() {
		for range there {
			back <- 1
		}
		close(back)
	}()
	b.ResetTimer()
	for range b.N / 2 {
		there <- 1
		<-back
	}
	close(there)
}

// The whole life of a fiber: it is made, has one turn, and ends.
func BenchmarkSpawn(b *testing.B) {
	err := Run(context.Background(), func(f *Fiber) {
		b.ResetTimer()
		for range b.N {
			f.Join(f.Spawn(func(*Fiber) {}))
		}
		b.StopTimer()
	})
	if err != nil {
		b.Fatal(err)
	}
}

// The whole lives of fibers, 100 at a time.
func BenchmarkSpawn100(b *testing.B) {
	err := Run(context.Background(), func(f *Fiber) {
		b.ResetTimer()
		for made := 0; made < b.N; made += 100 {
			group := f.Group()
			for range 100 {
				group.Go(func(*Fiber) error { return nil })
			}
			group.Wait()
		}
		b.StopTimer()
	})
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkSpawnGoroutine(b *testing.B) {
	done := make(chan struct{})
	for range b.N {
		go func() { done <- struct{}{} }()
		<-done
	}
}

func BenchmarkSleep0(b *testing.B) {
	err := Run(context.Background(), func(f *Fiber) {
		b.ResetTimer()
		for range b.N {
			f.Sleep(0)
		}
		b.StopTimer()
	})
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAwait(b *testing.B) {
	err := Run(context.Background(), func(f *Fiber) {
		b.ResetTimer()
		for range b.N {
			Await(f, func(context.Context) (int, error) { return 1, nil })
		}
		b.StopTimer()
	})
	if err != nil {
		b.Fatal(err)
	}
}

// Two switches of coroutines: the lower bound for a turn of a fiber.
func BenchmarkCoroutine(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		for yield(struct{}{}) {
		}
	})
	b.ResetTimer()
	for range b.N {
		next()
	}
	stop()
}

func benchCord(b *testing.B) *Cord {
	c, err := StartCord("bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// 100 goroutines: each starts a C fiber and waits for it, again and again.
func benchAwaitC(b *testing.B, fn unsafe.Pointer) {
	c := benchCord(b)
	var group sync.WaitGroup
	b.ResetTimer()
	for range 100 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range (b.N + 99) / 100 {
				c.SpawnC(fn, nil).Wait(context.Background())
			}
		}()
	}
	group.Wait()
}

func BenchmarkAwaitC100(b *testing.B)         { benchAwaitC(b, ctest.Nothing) }
func BenchmarkAwaitC100GivesWay(b *testing.B) { benchAwaitC(b, ctest.GivesWay) }

// One goroutine with 100 C fibers in progress.
func BenchmarkAwaitC100ByOne(b *testing.B) {
	c := benchCord(b)
	var futures [100]*Future
	b.ResetTimer()
	for i := range b.N {
		if u := futures[i%100]; u != nil {
			u.Wait(context.Background())
		}
		futures[i%100] = c.SpawnC(ctest.Nothing, nil)
	}
	for _, u := range futures {
		if u != nil {
			u.Wait(context.Background())
		}
	}
}

// One C fiber at a time: the time of the way there and back.
func BenchmarkAwaitC1(b *testing.B) {
	c := benchCord(b)
	b.ResetTimer()
	for range b.N {
		c.SpawnC(ctest.Nothing, nil).Wait(context.Background())
	}
}
func benchRun(b *testing.B, fn func(f *Fiber)) {
	if err := Run(context.Background(), fn); err != nil {
		b.Fatal(err)
	}
}
