// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/ctest"
)

var background = context.Background()

// Starts a cord, which is closed at the end of the test. The test fails if anything hangs.
func startCord(t *testing.T) *Cord {
	t.Helper()
	c, err := StartCord(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	hang := time.AfterFunc(5*time.Minute, func() {
		Dump(os.Stderr)
		os.Stderr.Write(stacks())
		panic("it hangs")
	})
	t.Cleanup(func() {
		c.Close()
		hang.Stop()
	})
	return c
}

// Returns a pointer to memory that C may use until the end of the test.
func pinned[T any](t *testing.T, value T) unsafe.Pointer {
	memory := &value
	pinner := new(runtime.Pinner)
	pinner.Pin(memory)
	t.Cleanup(pinner.Unpin)
	return unsafe.Pointer(memory)
}

func isAll(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%v is not %v", err, target)
		}
	}
}

func TestCordResults(t *testing.T) {
	c := startCord(t)
	for _, want := range []int64{0, 1, 1 << 62, -int64(syscall.ENOENT), -int64(syscall.ETIMEDOUT), -int64(syscall.ECANCELED),
		-int64(syscall.EPIPE), -1 << 63} {
		u := c.SpawnC(ctest.Same, pinned(t, want))
		for range 2 {
			got, err := u.Wait(background)
			if got != want || (err == nil) != (want >= 0) {
				t.Error(got, err, "instead of", want)
			}
			if want < 0 {
				isAll(t, err, syscall.Errno(-want))
			}
			for target, of := range map[error]syscall.Errno{os.ErrDeadlineExceeded: syscall.ETIMEDOUT,
				context.Canceled: syscall.ECANCELED} {
				if errors.Is(err, target) != (want == -int64(of)) {
					t.Errorf("%v: %v is %v", want, err, target)
				}
			}
			if errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
		}
		if !u.Ended() {
			t.Error("it has not ended")
		}
	}
	if result, err := c.SpawnC(ctest.Leaves, nil).Wait(background); result != 17 || err != nil {
		t.Error("fiber_exit:", result, err)
	}
	_, err := c.SpawnC(ctest.InTime, pinned(t, int64(1000))).Wait(background)
	isAll(t, err, os.ErrDeadlineExceeded, syscall.ETIMEDOUT)
}

func TestCordBadInput(t *testing.T) {
	c := startCord(t)
	u := c.SpawnC(nil, nil)
	if !u.Ended() {
		t.Error("a nil function runs")
	}
	_, err := u.Wait(background)
	isAll(t, err, syscall.EINVAL)
	u.Cancel()
	ended := c.SpawnC(ctest.Nothing, nil)
	ended.Wait(background)
	ended.Cancel()
	if _, err := ended.Wait(background); err != nil {
		t.Error("cancelled after its end:", err)
	}
	c.Close()
	c.Close()
	if err := c.Shutdown(background); err != nil {
		t.Error(err)
	}
	for _, u := range []*Future{c.SpawnC(ctest.Nothing, nil), c.SpawnCContext(background, ctest.Nothing, nil)} {
		_, err = u.Wait(background)
		isAll(t, err, os.ErrClosed, syscall.EPIPE)
		u.Cancel()
		<-u.Done()
	}
	if _, err := ended.Wait(background); err != nil {
		t.Error("a result from before the end:", err)
	}
}

func TestCordCancel(t *testing.T) {
	c := startCord(t)
	u := c.SpawnC(ctest.Waits, nil)
	u.Cancel()
	u.Cancel()
	_, err := u.Wait(background)
	isAll(t, err, context.Canceled, syscall.ECANCELED)
	// A function that has begun returns its own result.
	u = c.SpawnC(ctest.PutsUp, nil)
	c.SpawnC(ctest.GivesWay, nil).Wait(background)
	u.Cancel()
	if result, err := u.Wait(background); result != 42 || err != nil {
		t.Error(result, err)
	}
	// Other functions are not cancelled, although they reuse the tasks of cancelled ones.
	for range 100 {
		a, b := c.SpawnC(ctest.Waits, nil), c.SpawnC(ctest.GivesWay, nil)
		if _, err := b.Wait(background); err != nil {
			t.Fatal(err)
		}
		a.Cancel()
		a.Wait(background)
	}
}

func TestCordContext(t *testing.T) {
	c := startCord(t)
	ctx, cancel := context.WithCancelCause(background)
	// The context of a wait ends only the wait.
	u := c.SpawnC(ctest.Waits, nil)
	why := errors.New("why")
	time.AfterFunc(time.Millisecond, func() { cancel(why) })
	if _, err := u.Wait(ctx); err != why || u.Ended() {
		t.Error(err, u.Ended())
	}
	u.Cancel()
	u.Wait(background)
	if _, err := u.Wait(ctx); errors.Is(err, why) {
		t.Error("a result that is there counts more:", err)
	}
	// The context of a function cancels it.
	ran := c.SpawnCContext(ctx, ctest.Waits, nil)
	_, err := ran.Wait(background)
	isAll(t, err, why, context.Canceled, syscall.ECANCELED)
	ctx, stop := context.WithTimeout(background, time.Millisecond)
	defer stop()
	_, err = c.SpawnCContext(ctx, ctest.Waits, nil).Wait(background)
	isAll(t, err, context.DeadlineExceeded, context.Canceled)
}

// A cancel races with the end of the function: the result is one of the two, and no other future is affected.
func TestCordCancelAgainstCompletion(t *testing.T) {
	c := startCord(t)
	cancelled := 0
	for i := range 3000 {
		ctx, cancel := context.WithCancel(background)
		u := c.SpawnCContext(ctx, ctest.GivesWay, nil)
		other := c.SpawnC(ctest.GivesWay, nil)
		go func() {
			for range i % 7 {
				runtime.Gosched()
			}
			cancel()
		}()
		if _, err := u.Wait(background); err != nil {
			isAll(t, err, context.Canceled)
			cancelled++
		}
		if _, err := other.Wait(background); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	t.Log("cancelled in time:", cancelled)
}

func TestCordCloseWithFibersAlive(t *testing.T) {
	c := startCord(t)
	var futures []*Future
	for range 1000 {
		futures = append(futures, c.SpawnC(ctest.Waits, nil))
	}
	puts := c.SpawnC(ctest.PutsUp, nil)
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	if err := c.Shutdown(ctx); err != context.DeadlineExceeded {
		t.Error(err)
	}
	var group sync.WaitGroup
	for range 3 {
		group.Add(1)
		go func() {
			defer group.Done()
			c.Close()
		}()
	}
	group.Wait()
	for _, u := range futures {
		if !u.Ended() {
			t.Fatal("it lives")
		}
		_, err := u.Wait(background)
		isAll(t, err, os.ErrClosed, context.Canceled)
	}
	if result, _ := puts.Wait(background); result != 42 && result != -int64(syscall.ECANCELED) {
		t.Error(result)
	}
}

func TestCordShutdownLetsThemEnd(t *testing.T) {
	c := startCord(t)
	var futures []*Future
	for range 100 {
		futures = append(futures, c.SpawnC(ctest.Sleeps, pinned(t, int64(2e6))))
	}
	if err := c.Shutdown(background); err != nil {
		t.Error(err)
	}
	for _, u := range futures {
		if result, err := u.Wait(background); err != nil || !u.Ended() {
			t.Error(result, err)
		}
	}
}

// Close cancels the fibers that C functions have started.
func TestCordCloseCancelsOtherFibers(t *testing.T) {
	c := startCord(t)
	ended := pinned(t, int32(0))
	if _, err := c.SpawnC(ctest.LeavesStrays, ended).Wait(background); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if n := atomic.LoadInt32((*int32)(ended)); n != 3 {
		t.Error(n, "of 3 have ended")
	}
}

// A C function shuts the cord down: later calls get an error, and Close still works.
func TestCordShutDownByC(t *testing.T) {
	c := startCord(t)
	waits := c.SpawnC(ctest.Waits, nil)
	if _, err := c.SpawnC(ctest.ShutsDown, nil).Wait(background); err != nil {
		t.Log(err)
	}
	_, err := waits.Wait(background)
	isAll(t, err, context.Canceled)
	_, err = c.SpawnC(ctest.Nothing, nil).Wait(background)
	isAll(t, err, syscall.EPIPE)
	c.Close()
}

func TestCordThread(t *testing.T) {
	c := startCord(t)
	if result, err := c.SpawnC(ctest.Signals, nil).Wait(background); result != 0 {
		t.Error(result, err)
	}
}

func TestCord20000Futures(t *testing.T) {
	c := startCord(t)
	run := func(spawn func() *Future, before func(futures []*Future), want int64) {
		futures := make([]*Future, 20000)
		for i := range futures {
			futures[i] = spawn()
		}
		before(futures)
		for _, u := range futures {
			if result, _ := u.Wait(background); result != want {
				t.Fatal(result)
			}
		}
	}
	run(func() *Future { return c.SpawnC(ctest.GivesWay, nil) }, func([]*Future) {}, 0)
	run(func() *Future { return c.SpawnC(ctest.Waits, nil) }, func(futures []*Future) {
		for range 3 {
			runtime.GC()
		}
		for _, u := range futures {
			u.Cancel()
		}
	}, -int64(syscall.ECANCELED))
}

// Goroutines start, wait and cancel at random while the cord is closed.
func TestCordUnderFire(t *testing.T) {
	for range 20 {
		c := startCord(t)
		var group sync.WaitGroup
		for i := range 8 {
			group.Add(1)
			go func() {
				defer group.Done()
				for n := 0; ; n++ {
					ctx, cancel := context.WithCancel(background)
					u := c.SpawnCContext(ctx, ctest.GivesWay, nil)
					if (n+i)%3 == 0 {
						cancel()
					}
					_, err := u.Wait(background)
					cancel()
					if errors.Is(err, os.ErrClosed) {
						return
					}
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
						return
					}
				}
			}()
		}
		time.Sleep(time.Millisecond)
		c.Close()
		group.Wait()
	}
}

func TestFutureWaitOn(t *testing.T) {
	c := startCord(t)
	run(t, func(f *Fiber) {
		for want := range int64(100) {
			if got, err := c.SpawnC(ctest.Same, pinned(t, want)).WaitOn(f); got != want || err != nil {
				t.Error(got, err)
			}
		}
		// Several fibers wait for one future; one of them is cancelled.
		u := c.SpawnC(ctest.Waits, nil)
		var waiting []*Fiber
		for range 10 {
			waiting = append(waiting, f.Spawn(func(f *Fiber) {
				_, err := u.WaitOn(f)
				isAll(t, err, context.Canceled)
			}))
		}
		f.Reschedule()
		waiting[3].Cancel()
		f.Join(waiting[3])
		if u.Ended() {
			t.Error("the cancel of a waiter has gone too far")
		}
		u.Cancel()
		for _, other := range waiting {
			f.Join(other)
		}
		panics(t, "WaitOn by a goroutine that is not this fiber", func() {
			problem := make(chan any)
			go func() {
				defer func() { problem <- recover() }()
				u.WaitOn(f)
			}()
			panic(<-problem)
		})
	})
}

// A closed cord leaves no descriptors, goroutines or threads behind.
func TestCordLeavesNothing(t *testing.T) {
	count := func(folder string) int {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	cord := func() {
		c, err := StartCord("")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		c.SpawnCContext(ctx, ctest.Waits, nil)
		c.SpawnCContext(ctx, ctest.GivesWay, nil).Wait(background)
		c.Close()
	}
	cord()
	// The Go runtime may also make threads, now and then.
	descriptors, goroutines, threads := count("/proc/self/fd"), runtime.NumGoroutine(), count("/proc/self/task")
	for range 50 {
		cord()
	}
	for range 1000 {
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if n := count("/proc/self/fd"); n != descriptors {
		t.Error("descriptors:", descriptors, "then", n)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Error("goroutines:", goroutines, "then", n)
	}
	if n := count("/proc/self/task"); n > threads+25 {
		t.Error("threads:", threads, "then", n)
	}
}

func TestCordWithoutDescriptors(t *testing.T) {
	var before syscall.Rlimit
	syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before)
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: before.Max})
	c, err := StartCord("none")
	if err == nil {
		c.Close()
	}
	isAll(t, err, syscall.EMFILE)
}
