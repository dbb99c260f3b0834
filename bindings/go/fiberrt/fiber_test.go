// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Runs fn as the first fiber, and fails if anything hangs.
func run(t *testing.T, fn func(f *Fiber)) {
	t.Helper()
	if err := runWith(t, context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func runWith(t *testing.T, ctx context.Context, fn func(f *Fiber)) error {
	t.Helper()
	hang := time.AfterFunc(5*time.Minute, func() {
		Dump(os.Stderr)
		os.Stderr.Write(stacks())
		panic("it hangs")
	})
	defer hang.Stop()
	return Run(ctx, fn)
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the order was %v, not %v", got, want)
	}
}

func TestFibersTakeTurns(t *testing.T) {
	var trace []string
	run(t, func(f *Fiber) {
		for _, name := range []string{"a", "b", "c"} {
			f.Spawn(func(f *Fiber) {
				for i := range 3 {
					trace = append(trace, fmt.Sprint(name, i))
					if err := f.Reschedule(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	})
	same(t, trace, []string{"a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"})
}

func TestRescheduleRunsSpawnedAndWokenFibers(t *testing.T) {
	run(t, func(f *Fiber) {
		for range 200 {
			ran := false
			f.Spawn(func(*Fiber) { ran = true })
			f.Reschedule()
			if !ran {
				t.Fatal("the child has had no turn")
			}
		}
	})
}

func TestSpawnInsideFiber(t *testing.T) {
	depth := 0
	var deeper func(f *Fiber)
	deeper = func(f *Fiber) {
		if depth++; depth < 500 {
			if err := f.Join(f.Spawn(deeper)); err != nil {
				t.Error(err)
			}
		}
	}
	run(t, deeper)
	if depth != 500 {
		t.Error(depth)
	}
}

func TestSleepKeepsOrderAndTime(t *testing.T) {
	var trace []string
	begin := time.Now()
	run(t, func(f *Fiber) {
		for _, ms := range []int{30, 10, 20, 0} {
			f.Spawn(func(f *Fiber) {
				if err := f.Sleep(time.Duration(ms) * time.Millisecond); err != nil {
					t.Error(err)
				}
				trace = append(trace, fmt.Sprint(ms))
			})
		}
		if err := f.Sleep(-1); err != nil {
			t.Error(err)
		}
	})
	same(t, trace, []string{"0", "10", "20", "30"})
	if took := time.Since(begin); took < 30*time.Millisecond {
		t.Error("it took but", took)
	}
}

func TestJoin(t *testing.T) {
	run(t, func(f *Fiber) {
		gate := make(chan int, 1)
		child := f.Spawn(func(f *Fiber) { Recv(f, gate) })
		joined := 0
		for range 10 {
			f.Spawn(func(f *Fiber) {
				if err := f.Join(child); err != nil {
					t.Error(err)
				}
				joined++
			})
		}
		f.Reschedule()
		if joined != 0 || child.Ended() {
			t.Error("joined before the end")
		}
		gate <- 1
		if err := f.Join(child); err != nil {
			t.Error(err)
		}
		f.Reschedule()
		if err := f.Join(child); err != nil || joined != 10 || !child.Ended() {
			t.Error("late joins", err, joined)
		}
		if err := f.Join(f); !errors.Is(err, syscall.EDEADLK) {
			t.Error(err)
		}
	})
}

// A cancelled join does not affect the other fiber.
func TestJoinCancelled(t *testing.T) {
	run(t, func(f *Fiber) {
		gate := make(chan int, 1)
		child := f.Spawn(func(f *Fiber) { Recv(f, gate) })
		joiner := f.Spawn(func(f *Fiber) {
			if err := f.Join(child); !errors.Is(err, context.Canceled) || child.Ended() {
				t.Error(err)
			}
		})
		f.Reschedule()
		joiner.Cancel()
		f.Join(joiner)
		gate <- 1
		if err := f.Join(child); err != nil {
			t.Error(err)
		}
	})
}

func TestJoinFiberOfAnotherRun(t *testing.T) {
	var other *Fiber
	ready, gate := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Run(context.Background(), func(f *Fiber) {
			other = f.Spawn(func(f *Fiber) { Recv(f, gate) })
			close(ready)
		})
	}()
	<-ready
	run(t, func(f *Fiber) {
		f.Spawn(func(*Fiber) { close(gate) })
		if err := f.Join(other); err != nil {
			t.Error(err)
		}
	})
	if err := other.Wait(context.Background()); err != nil {
		t.Error(err)
	}
	<-ended
}

func TestPanicIsReportedToTheJoiner(t *testing.T) {
	cause := errors.New("boom")
	run(t, func(f *Fiber) {
		child := f.Spawn(func(f *Fiber) {
			f.Reschedule()
			thisPanics(cause)
		})
		for range 2 {
			err := f.Join(child)
			var p *PanicError
			if !errors.As(err, &p) || p.Value != cause || !errors.Is(err, cause) {
				t.Fatalf("%v", err)
			}
			if !strings.Contains(string(p.Stack), "thisPanics") || !strings.Contains(err.Error(), "thisPanics") {
				t.Errorf("the stack is %s", p.Stack)
			}
		}
		f.Spawn(func(f *Fiber) {}) // the hub still works
	})
}

//go:noinline
func thisPanics(value any) { panic(value) }

func TestPanicThatNoJoinerReceives(t *testing.T) {
	for _, first := range []bool{true, false} {
		after := false
		func() {
			defer func() {
				if p, ok := recover().(*PanicError); !ok || p.Value != "boom" {
					t.Error("Run has not panicked with it")
				}
			}()
			runWith(t, context.Background(), func(f *Fiber) {
				f.Spawn(func(f *Fiber) { f.Reschedule(); f.Reschedule(); after = true })
				if first {
					panic("boom")
				}
				f.Spawn(func(f *Fiber) { panic("boom") })
			})
			t.Error("Run has returned")
		}()
		if !after {
			t.Error("the others have not gone on")
		}
	}
}

func TestGoexit(t *testing.T) {
	run(t, func(f *Fiber) {
		for range 100 {
			deferred := false
			child := f.Spawn(func(f *Fiber) {
				defer func() {
					f.Reschedule() // also while exiting
					deferred = true
				}()
				f.Reschedule()
				runtime.Goexit()
			})
			if err := f.Join(child); err != ErrGoexit || !deferred {
				t.Fatal(err, deferred)
			}
			// The coroutine that has exited is reused, and a panic in it ends only the fiber.
			var p *PanicError
			if err := f.Join(f.Spawn(func(f *Fiber) { f.Reschedule(); panic(1) })); !errors.As(err, &p) {
				t.Fatal(err)
			}
		}
	})
}

func TestGoexitOfTheFirstFiberIsRuns(t *testing.T) {
	ended, others := make(chan bool), false
	go func() {
		returned := false
		defer func() { ended <- returned }()
		runWith(t, context.Background(), func(f *Fiber) {
			f.Spawn(func(f *Fiber) { f.Reschedule(); others = true })
			runtime.Goexit()
		})
		returned = true
	}()
	if <-ended || !others {
		t.Error("Run has returned, or the others have not gone on")
	}
}

func TestCancel(t *testing.T) {
	run(t, func(f *Fiber) {
		for name, wait := range map[string]func(f *Fiber) error{
			"Sleep":      func(f *Fiber) error { return f.Sleep(time.Hour) },
			"Join":       func(f *Fiber) error { return f.Join(f.Spawn(func(f *Fiber) { f.Reschedule() })) },
			"Reschedule": func(f *Fiber) error { return f.Reschedule() },
			"Recv":       func(f *Fiber) error { _, _, err := Recv(f, make(chan int)); return err },
			"Send":       func(f *Fiber) error { return Send(f, make(chan int), 1) },
			"Await": func(f *Fiber) error {
				_, err := Await(f, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
				return err
			},
		} {
			child := f.Spawn(func(f *Fiber) {
				for i := range 3 {
					if err := wait(f); (i > 0 || name != "Reschedule" && name != "Join") && !errors.Is(err, context.Canceled) {
						t.Error(name, i, err)
					}
				}
			})
			f.Reschedule()
			child.Cancel()
			child.Cancel()
			if err := f.Join(child); err != nil {
				t.Error(name, err)
			}
			child.Cancel() // the fiber has ended: no effect
		}
	})
}

func TestCancelBeforeTheFirstTurn(t *testing.T) {
	run(t, func(f *Fiber) {
		child := f.Spawn(func(f *Fiber) { t.Error("it has run") })
		child.Cancel()
		if err := f.Join(child); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestCancelFromGoroutine(t *testing.T) {
	run(t, func(f *Fiber) {
		ctx := f.Context()
		go f.Cancel()
		if err := f.Sleep(time.Hour); !errors.Is(err, context.Canceled) || !errors.Is(err, syscall.ECANCELED) {
			t.Error(err)
		}
		if ctx.Err() == nil {
			t.Error("its context is not done")
		}
	})
}

func TestContextOfRun(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	sleeps, ran := 0, false
	err := runWith(t, ctx, func(f *Fiber) {
		for range 100 {
			f.Spawn(func(f *Fiber) {
				sleeps++
				if sleeps == 100 {
					go cancel(cause)
				}
				if err := f.Sleep(time.Hour); !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		if err := f.Sleep(time.Hour); !errors.Is(err, cause) {
			t.Error(err)
		}
		late := f.Spawn(func(f *Fiber) { ran = true })
		if err := f.Join(late); !errors.Is(err, context.Canceled) || ran {
			t.Error("one that was spawned afterwards", err, ran)
		}
	})
	if err != cause {
		t.Error(err)
	}
	if err := Run(ctx, func(f *Fiber) { t.Error("it has run") }); err != cause {
		t.Error(err)
	}
}

func TestWithContext(t *testing.T) {
	run(t, func(f *Fiber) {
		cause := errors.New("enough")
		for range 20 {
			ctx, cancel := context.WithCancelCause(context.Background())
			err := f.WithContext(ctx, func() error {
				inner := f.Context()
				go cancel(cause)
				err := f.Sleep(time.Hour)
				if inner.Err() == nil || context.Cause(inner) != cause {
					t.Error("the inner context", context.Cause(inner))
				}
				if err := f.Reschedule(); !errors.Is(err, cause) {
					t.Error("it has gone on", err)
				}
				return err
			})
			if !errors.Is(err, cause) {
				t.Error(err)
			}
			if err := f.Reschedule(); err != nil || f.Context().Err() != nil {
				t.Error("outside", err)
			}
		}
		late, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		err := f.WithContext(late, func() error { return f.Sleep(time.Hour) })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := f.WithContext(late, func() error { t.Error("called"); return nil }); err != context.DeadlineExceeded {
			t.Error(err)
		}
	})
}

// The end of a context races with the end of the wait: nothing is lost.
func TestCancelMeetsCompletion(t *testing.T) {
	run(t, func(f *Fiber) {
		values := make(chan int)
		var sent, stop atomic.Int64
		go func() {
			defer close(values)
			for i := 1; stop.Load() == 0; i++ {
				values <- i
				sent.Store(int64(i))
			}
		}()
		got, cancelled := 0, 0
		for i := range 300 {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				for range i % 7 {
					runtime.Gosched()
				}
				cancel()
			}()
			f.WithContext(ctx, func() error {
				value, ok, err := Recv(f, values)
				switch {
				case err != nil:
					cancelled++
				case !ok || value != got+1:
					t.Errorf("%d came after %d", value, got)
				default:
					got = value
				}
				return nil
			})
			cancel()
		}
		stop.Store(1)
		for {
			value, ok, err := Recv(f, values)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if value != got+1 {
				t.Errorf("%d came after %d", value, got)
			}
			got = value
		}
		if int64(got) != sent.Load() {
			t.Errorf("%d were sent, %d received, %d waits cancelled", sent.Load(), got, cancelled)
		}
	})
}

func TestNotInSimulation(t *testing.T) {
	t.Setenv("FIBERRT_BACKEND", "sim")
	if err := Run(context.Background(), func(*Fiber) { t.Error("it runs") }); !errors.Is(err, syscall.ENOTSUP) {
		t.Error(err)
	}
	if _, err := StartCord("simulated"); !errors.Is(err, syscall.ENOTSUP) {
		t.Error(err)
	}
}
