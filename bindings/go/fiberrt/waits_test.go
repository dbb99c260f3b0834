// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestAwaitLetsOthersRun(t *testing.T) {
	run(t, func(f *Fiber) {
		gate := make(chan int)
		f.Spawn(func(f *Fiber) { close(gate) }) // never runs if Await blocks the thread
		value, err := Await(f, func(context.Context) (int, error) { <-gate; return 7, errors.ErrUnsupported })
		if value != 7 || err != errors.ErrUnsupported {
			t.Error(value, err)
		}
	})
}

func TestAwaitPanicAndGoexit(t *testing.T) {
	run(t, func(f *Fiber) {
		child := f.Spawn(func(f *Fiber) {
			Await(f, func(context.Context) (int, error) { thisPanics("boom"); return 0, nil })
			t.Error("it has gone on")
		})
		if err := f.Join(child); err == nil || !strings.Contains(err.Error(), "thisPanics") {
			t.Error(err)
		}
		if _, err := Await(f, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }); err != ErrGoexit {
			t.Error(err)
		}
	})
}

func TestAwaitCancelled(t *testing.T) {
	ended := make(chan error, 1)
	left := make(chan struct{}) // closed when Await has left; a goroutine that returns before has a result
	run(t, func(f *Fiber) {
		child := f.Spawn(func(f *Fiber) {
			_, err := Await(f, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				<-left
				ended <- ctx.Err()
				return 0, nil
			})
			close(left)
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			Await(f, func(context.Context) (int, error) { t.Error("called"); return 0, nil })
		})
		f.Reschedule()
		child.Cancel()
		f.Join(child)
	})
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
}

func TestChannelsOfGo(t *testing.T) {
	for _, capacity := range []int{0, 1, 100} {
		run(t, func(f *Fiber) {
			const count = 500
			ch := make(chan int, capacity)
			sum := 0
			receiver := f.Spawn(func(f *Fiber) {
				for {
					value, ok, err := Recv(f, ch)
					if err != nil {
						t.Error(err)
					}
					if !ok {
						return
					}
					sum += value
				}
			})
			sender := f.Spawn(func(f *Fiber) {
				for i := range count {
					if err := Send(f, ch, i); err != nil {
						t.Error(err)
					}
				}
			})
			go func() {
				for i := range count {
					ch <- i
				}
				<-sender.Done()
				close(ch)
			}()
			f.Join(receiver)
			if sum != count*(count-1) {
				t.Error(sum)
			}
		})
	}
}

func TestSendOnClosedChannelPanics(t *testing.T) {
	run(t, func(f *Fiber) {
		for _, when := range []string{"before", "while it waits for fibers", "while its helper waits"} {
			if when != "before" && underRace {
				t.Log("left out: a send that meets a close is what the race detector reports")
				break
			}
			ch := make(chan int)
			sender := f.Spawn(func(f *Fiber) { Send(f, ch, 1) })
			if when != "before" {
				f.Reschedule()
			}
			for jobs := f.hub.helperJobs; when == "while its helper waits" && f.hub.helperJobs == jobs; {
				f.Sleep(time.Microsecond)
			}
			close(ch)
			var p *PanicError
			if err := f.Join(sender); !errors.As(err, &p) || !strings.Contains(err.Error(), "send on closed channel") {
				t.Error(when, err)
			}
		}
	})
}

func TestGroup(t *testing.T) {
	run(t, func(f *Fiber) {
		sum := 0
		group := f.Group()
		for i := range 100 {
			group.Go(func(f *Fiber) error {
				f.Reschedule()
				sum += i
				if i == 0 { // they may have more
					group.Go(func(*Fiber) error { sum += 1000; return nil })
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil || sum != 5950 {
			t.Error(err, sum)
		}
		if err := f.Group().Wait(); err != nil {
			t.Error("an empty one", err)
		}
	})
}

func TestGroupFails(t *testing.T) {
	cause := errors.New("the first")
	for name, failure := range map[string]func() error{
		"error":  func() error { return cause },
		"panic":  func() error { panic(cause) },
		"Goexit": func() error { runtime.Goexit(); return nil },
	} {
		run(t, func(f *Fiber) {
			group := f.Group()
			ended := 0
			for range 10 {
				group.Go(func(f *Fiber) error {
					err := f.Sleep(time.Hour)
					if !errors.Is(err, context.Canceled) {
						t.Error(name, err)
					}
					ended++
					return err
				})
			}
			group.Go(func(f *Fiber) error { return failure() })
			err := group.Wait()
			if ended != 10 || name == "Goexit" && err != ErrGoexit || name != "Goexit" && !errors.Is(err, cause) {
				t.Error(name, err, ended)
			}
			group.Go(func(f *Fiber) error { t.Error("it has run"); return nil })
			group.Wait()
		})
	}
}

// A cancelled Wait returns only after the children have ended.
func TestGroupOfCancelledOwner(t *testing.T) {
	run(t, func(f *Fiber) {
		ended := 0
		owner := f.Spawn(func(f *Fiber) {
			group := f.Group()
			for range 10 {
				group.Go(func(f *Fiber) error {
					f.Sleep(time.Hour)
					f.shielded("test", func() error { return f.Sleep(time.Millisecond) })
					ended++
					return nil
				})
			}
			if err := group.Wait(); !errors.Is(err, context.Canceled) || ended != 10 {
				t.Error(err, ended)
			}
		})
		f.Reschedule()
		f.Reschedule()
		owner.Cancel()
		f.Join(owner)
	})
}

func TestDump(t *testing.T) {
	run(t, func(f *Fiber) {
		child := f.Spawn(func(f *Fiber) {
			f.SetName("the-sleeper")
			thisSleeps(f)
		})
		f.Reschedule()
		var text bytes.Buffer
		if err := Dump(&text); err != nil {
			t.Error(err)
		}
		for _, word := range []string{"the-sleeper", "thisSleeps"} {
			if !strings.Contains(text.String(), word) {
				t.Errorf("no %s in %s", word, text.String())
			}
		}
		child.Cancel()
	})
}

//go:noinline
func thisSleeps(f *Fiber) { f.Sleep(time.Hour) }

// The garbage collector may move and shrink the stacks of fibers, and must not scan the library's memory.
func TestManyFibersAndGarbage(t *testing.T) {
	const count = 20000
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	sum := 0
	run(t, func(f *Fiber) {
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC()
				}
			}
		}()
		group := f.Group()
		for i := range count {
			group.Go(func(f *Fiber) error {
				text := strings.Repeat("x", i%100)
				local := [3]*int{new(int), &i, new(int)}
				for range 3 {
					if err := f.Sleep(time.Duration(i%7) * time.Microsecond); err != nil {
						return err
					}
					sum += deep(i%50) - i%50
					f.Reschedule()
				}
				if len(text) != i%100 || *local[1] != i {
					t.Error("garbage")
				}
				sum++
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		close(stop)
	})
	if sum != count {
		t.Error(sum)
	}
}

//go:noinline
func deep(n int) int {
	var frame [128]byte
	frame[n] = 1
	if n == 0 {
		return 0
	}
	return deep(n-1) + int(frame[n])
}

// SIGPROF comes while fibers switch, and while the thread is in C.
func TestProfiling(t *testing.T) {
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	run(t, func(f *Fiber) {
		until := time.Now().Add(100 * time.Millisecond)
		for range 10 {
			f.Spawn(func(f *Fiber) {
				for i := 0; time.Now().Before(until); i++ {
					deep(i % 100)
					f.Reschedule()
					if i%16 == 0 {
						f.Sleep(0)
					}
				}
			})
		}
	})
	pprof.StopCPUProfile()
	if profile.Len() == 0 {
		t.Error("there is no profile")
	}
}

func TestManyRunsAtOnce(t *testing.T) {
	var group sync.WaitGroup
	var sum atomic.Int64
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 20 {
				run(t, func(f *Fiber) {
					for range 10 {
						f.Spawn(func(f *Fiber) { f.Sleep(time.Microsecond); sum.Add(1) })
					}
				})
			}
		}()
	}
	group.Wait()
	if sum.Load() != 1600 {
		t.Error(sum.Load())
	}
}

// The thread of a Run and its cord end with it.
func TestNothingIsLeft(t *testing.T) {
	cords := func() int {
		var text bytes.Buffer
		Dump(&text)
		return strings.Count(text.String(), "cord ")
	}
	left := func() bool {
		during := 0
		run(t, func(f *Fiber) {
			f.Spawn(func(*Fiber) { runtime.Goexit() })
			ch := make(chan int)
			go func() { time.Sleep(time.Millisecond); ch <- 1 }()
			Recv(f, ch)
			during = cords()
		})
		for deadline := time.Now().Add(time.Minute); cords() >= during; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return true
			}
		}
		return false
	}
	before := runtime.NumGoroutine()
	for range 20 {
		if left() {
			t.Fatal("the cord of a Run is left, or Dump does not show it")
		}
	}
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal(runtime.NumGoroutine()-before, "goroutines are left")
		}
	}
}

func panics(t *testing.T, sentence string, fn func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if text, _ := recover().(string); !strings.Contains(text, sentence) {
			t.Errorf("the panic was %q", text)
		}
	}()
	fn()
}

func TestOnlyTheFiberItselfWaits(t *testing.T) {
	run(t, func(f *Fiber) {
		group := f.Group()
		child := f.Spawn(func(f *Fiber) { f.Reschedule() })
		panics(t, "a goroutine that is not this fiber", func() { child.Reschedule() })
		f.Reschedule()
		panics(t, "a goroutine that is not this fiber", func() { child.Sleep(1) })
		f.Join(child)
		panics(t, "that has ended", func() { child.Reschedule() })
		Await(f, func(context.Context) (int, error) {
			for _, call := range []func(){
				func() { f.Reschedule() }, func() { f.Sleep(0) }, func() { f.Join(child) }, func() { f.Spawn(nil) },
				func() { Recv(f, make(chan int, 1)) }, func() { Send(f, make(chan int, 1), 1) },
				func() { f.SetName("x") }, func() { f.TraceBegin("x") }, func() { f.TraceEnd() }, func() { f.WithContext(context.Background(), nil) },
				func() { f.Group() }, func() { group.Wait() },
				func() { Await(f, func(context.Context) (int, error) { return 0, nil }) },
			} {
				panics(t, "a goroutine that is not this fiber", call)
			}
			panics(t, "not a fiber of the group's Run", func() { group.Go(nil) })
			return 0, nil
		})
	})
}

func TestErrorsWorkWithErrorsIs(t *testing.T) {
	err := failure("x", -int64(syscall.ECANCELED))
	if !errors.Is(err, context.Canceled) || !errors.Is(err, syscall.ECANCELED) || errors.Is(err, syscall.EINTR) {
		t.Error(err)
	}
	var timeout interface{ Timeout() bool }
	if err := failure("x", -int64(syscall.ETIMEDOUT)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Error(err)
	}
}
