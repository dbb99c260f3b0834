// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fibers of one Run exchange values over a channel without a goroutine that waits for them.
func TestChannelBetweenFibersNeedsNoGoroutine(t *testing.T) {
	const count, stages = 1000, 5
	for _, capacity := range []int{0, 1, 10} {
		run(t, func(f *Fiber) {
			group := f.Group()
			var in chan int
			for stage := range stages {
				from, to := in, make(chan int, capacity)
				in = to
				group.Go(func(f *Fiber) error {
					for i := range count {
						if stage > 0 {
							value, ok, err := Recv(f, from)
							if err != nil || !ok || value != i {
								t.Error("stage", stage, value, ok, err, "instead of", i)
							}
						}
						if err := Send(f, to, i); err != nil {
							return err
						}
					}
					close(to)
					return nil
				})
			}
			for i := range count {
				if value, ok, err := Recv(f, in); value != i || !ok || err != nil {
					t.Error(value, ok, err, "instead of", i)
				}
			}
			if value, ok, err := Recv(f, in); value != 0 || ok || err != nil {
				t.Error("after the close", value, ok, err)
			}
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			if f.hub.helperJobs > 0 {
				t.Errorf("capacity %d: %d waits for %d values needed a goroutine", capacity, f.hub.helperJobs, count*stages)
			}
		})
	}
}

// A fiber that came first, and got a helper, needs no helper once a fiber has come to the other side.
func TestHelperIsCalledBackWhenAFiberComes(t *testing.T) {
	const count = 1000
	for _, side := range []chanSide{receives, sends} {
		run(t, func(f *Fiber) {
			ch := make(chan int)
			receive := func(f *Fiber) error {
				for i := range count {
					if value, _, err := Recv(f, ch); value != i || err != nil {
						t.Error(value, err, "instead of", i)
					}
				}
				return nil
			}
			send := func(f *Fiber) error {
				for i := range count {
					if err := Send(f, ch, i); err != nil {
						t.Error(err)
					}
				}
				return nil
			}
			first, second := receive, send
			if side == sends {
				first, second = send, receive
			}
			group := f.Group()
			group.Go(first)
			for f.hub.helperJobs == 0 {
				f.Sleep(time.Microsecond)
			}
			group.Go(second)
			group.Wait()
			if f.hub.helperJobs > 2 {
				t.Errorf("%s: %d of %d waits needed a goroutine", side, f.hub.helperJobs, count)
			}
		})
	}
}

// Fibers that were cancelled in a WithContext that has ended meet as other fibers do.
func TestChannelAfterACancelledContext(t *testing.T) {
	const count = 1000
	run(t, func(f *Fiber) {
		ch := make(chan int)
		cancelled := func(f *Fiber) {
			ctx, cancel := context.WithCancel(context.Background())
			f.WithContext(ctx, func() error { cancel(); return f.Sleep(time.Hour) })
		}
		group := f.Group()
		group.Go(func(f *Fiber) error {
			cancelled(f)
			for i := range count {
				if err := Send(f, ch, i); err != nil {
					return err
				}
			}
			return nil
		})
		cancelled(f)
		for i := range count {
			if value, ok, err := Recv(f, ch); value != i || !ok || err != nil {
				t.Error(value, ok, err, "instead of", i)
			}
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		if f.hub.helperJobs > 2 { // at the start, one may wait for the other
			t.Errorf("%d of %d waits needed a goroutine", f.hub.helperJobs, count)
		}
	})
}

// The helper of one wait is reused for the next.
func TestHelpersAreUsedAgain(t *testing.T) {
	run(t, func(f *Fiber) {
		there, back := make(chan int), make(chan int)
		go func() {
			for value := range there {
				back <- value + 1
			}
			close(back)
		}()
		for i := range 300 {
			if err := Send(f, there, i); err != nil {
				t.Error(err)
			}
			if value, ok, err := Recv(f, back); value != i+1 || !ok || err != nil {
				t.Error(value, ok, err)
			}
		}
		close(there)
		if _, ok, err := Recv(f, back); ok || err != nil {
			t.Error(ok, err)
		}
		if f.hub.helpersNew > 1 {
			t.Errorf("%d helpers were started for one fiber", f.hub.helpersNew)
		}
	})
}

// The helpers of a Run end with it, even if there were more than it keeps.
func TestHelpersEndWithTheRun(t *testing.T) {
	const count = helpersKept + 100
	before := runtime.NumGoroutine()
	run(t, func(f *Fiber) {
		ch := make(chan int)
		group := f.Group()
		for range count {
			group.Go(func(f *Fiber) error { _, _, err := Recv(f, ch); return err })
		}
		for f.hub.helperJobs < count {
			f.Sleep(time.Microsecond)
		}
		close(ch)
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		if len(f.hub.helpers) != helpersKept {
			t.Error(len(f.hub.helpers), "helpers are kept")
		}
		if len(f.hub.lines) != 0 {
			t.Error("the hub keeps a channel on which no fiber waits")
		}
	})
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal(runtime.NumGoroutine()-before, "goroutines are left")
		}
	}
}

// A close comes before the exchange of fibers that waited already.
func TestCloseBeforeFibersMeet(t *testing.T) {
	run(t, func(f *Fiber) {
		ch := make(chan int)
		receiver := f.Spawn(func(f *Fiber) {
			if value, ok, err := Recv(f, ch); value != 0 || ok || err != nil {
				t.Error(value, ok, err)
			}
		})
		f.Reschedule() // the receiver waits now
		close(ch)
		panics := func() (value any) {
			defer func() { value = recover() }()
			Send(f, ch, 1)
			return nil
		}
		if value := panics(); !strings.Contains(fmt.Sprint(value), "send on closed channel") {
			t.Error(value)
		}
		f.Join(receiver)
	})
}

// Fibers do not meet on a nil channel, and a wait on it only ends early.
func TestNilChannel(t *testing.T) {
	run(t, func(f *Fiber) {
		var ch chan int
		ended := 0
		group := f.Group()
		group.Go(func(f *Fiber) error { _, _, err := Recv(f, ch); ended++; return err })
		group.Go(func(f *Fiber) error { err := Send(f, ch, 1); ended++; return err })
		f.Sleep(time.Millisecond)
		if ended > 0 {
			t.Error("a wait on a nil channel has ended")
		}
		group.Cancel(nil)
		if err := group.Wait(); !errors.Is(err, context.Canceled) || ended != 2 {
			t.Error(err, ended)
		}
		if f.hub.helperJobs > 0 {
			t.Error("a goroutine waits on a nil channel")
		}
	})
}

// Fibers that are cancelled while they wait for other fibers end without a goroutine.
func TestCancelledChannelWaitsNeedNoGoroutine(t *testing.T) {
	run(t, func(f *Fiber) {
		ch := make(chan int)
		group := f.Group()
		for range 100 {
			group.Go(func(f *Fiber) error { _, _, err := Recv(f, ch); return err })
		}
		f.Reschedule() // they wait now
		if waiting := len(f.hub.chanWaits); waiting != 100 {
			t.Error(waiting, "wait")
		}
		group.Cancel(nil)
		if err := group.Wait(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if f.hub.helperJobs > 0 {
			t.Error(f.hub.helperJobs, "waits were given to goroutines")
		}
	})
}

// A value of a goroutine reaches a fiber while another fiber never stops running.
func TestChannelWaitNextToABusyFiber(t *testing.T) {
	run(t, func(f *Fiber) {
		ch := make(chan int)
		received := false
		f.Spawn(func(f *Fiber) {
			if value, ok, err := Recv(f, ch); value != 7 || !ok || err != nil {
				t.Error(value, ok, err)
			}
			received = true
		})
		f.Reschedule()
		go func() { ch <- 7 }()
		for !received {
			f.Reschedule()
		}
	})
}

// A goroutine that always sends does not starve a fiber that sends. A goroutine that always receives does not starve a
// fiber that receives.
func TestChannelIsFairToFibers(t *testing.T) {
	for _, capacity := range []int{0, 2} {
		run(t, func(f *Fiber) {
			ch := make(chan int, capacity)
			stop := make(chan struct{})
			var ended sync.WaitGroup
			for range 4 {
				ended.Add(1)
				go func() {
					defer ended.Done()
					for {
						select {
						case ch <- 0:
						case <-stop:
							return
						}
					}
				}()
			}
			sender := f.Spawn(func(f *Fiber) {
				for range 20 {
					if err := Send(f, ch, 1); err != nil {
						t.Error(err)
					}
				}
			})
			for sum := 0; sum < 20; {
				value, _, err := Recv(f, ch)
				if err != nil {
					t.Error(err)
				}
				sum += value
			}
			f.Join(sender)
			close(stop)
			ended.Wait()
		})
	}
}

func TestDumpReportsAChannelThatNoFiberServes(t *testing.T) {
	run(t, func(f *Fiber) {
		ch, none := make(chan string), chan string(nil)
		group := f.Group()
		group.Go(func(f *Fiber) error { _, _, err := Recv(f, ch); return err })
		group.Go(func(f *Fiber) error { return Send(f, none, "") })
		f.Sleep(0)
		for f.hub.helperJobs == 0 {
			f.Sleep(time.Microsecond)
		}
		dump := func() string {
			var text bytes.Buffer
			if err := Dump(&text); err != nil {
				t.Error(err)
			}
			return text.String()
		}
		text := dump()
		for i, words := range []string{"waits in Recv for 0.", "waits in Send for 0."} {
			child := group.children[i]
			line := fmt.Sprintf("fiber 0x%016x %s", child.handle, words)
			if strings.Count(text, fmt.Sprintf("fiber 0x%016x", child.handle)) != 2 || !strings.Contains(text, line) {
				t.Errorf("no line %q next to fiber_dump's in %s", line, text)
			}
		}
		for _, words := range []string{
			fmt.Sprintf("s, on a channel of string at %p: no fiber of the same Run is at the other end\n", ch),
			"nil: the wait never ends\n",
		} {
			if !strings.Contains(text, words) {
				t.Errorf("no %q in %s", words, text)
			}
		}
		group.Cancel(nil)
		group.Wait()
		if text := dump(); strings.Contains(text, "waits in Recv") || strings.Contains(text, "waits in Send") {
			t.Error("a wait that has ended is in ", text)
		}
	})
}

// Fibers and goroutines on both sides; some of the waits end early. Each value arrives once, the values of one sender in
// order.
func TestChannelStress(t *testing.T) {
	const senders, receivers, count = 4, 3, 300
	type item struct{ sender, number int }
	for _, capacity := range []int{0, 1, 8} {
		run(t, func(f *Fiber) {
			ch := make(chan item, capacity)
			var mu sync.Mutex
			got := map[item]int{}
			note := func(one item, last []int) {
				mu.Lock()
				defer mu.Unlock()
				got[one]++
				if one.number <= last[one.sender] {
					t.Errorf("%v came after %d", one, last[one.sender])
				}
				last[one.sender] = one.number
			}
			fresh := func() []int { return []int{-1, -1, -1, -1, -1, -1, -1, -1} }
			// Ends some of the calls early, at any moment.
			hurried := func(f *Fiber, call func() error) error {
				if rand.IntN(4) > 0 {
					return call()
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				reschedules := rand.IntN(5)
				go func() {
					for range reschedules {
						runtime.Gosched()
					}
					cancel()
				}()
				return f.WithContext(ctx, call)
			}
			sending, receiving := f.Group(), f.Group()
			for s := range senders {
				sending.Go(func(f *Fiber) error {
					for i := 0; i < count; {
						if hurried(f, func() error { return Send(f, ch, item{s, i}) }) == nil {
							i++
						} else {
							f.Reschedule()
						}
					}
					return nil
				})
			}
			var others, receiverGoroutines sync.WaitGroup
			for s := range senders {
				others.Add(1)
				go func() {
					defer others.Done()
					for i := range count {
						ch <- item{senders + s, i}
					}
				}()
			}
			for range receivers {
				receiving.Go(func(f *Fiber) error {
					for last := fresh(); ; {
						var one item
						var ok bool
						err := hurried(f, func() (err error) { one, ok, err = Recv(f, ch); return err })
						switch {
						case err != nil:
							if one != (item{}) || ok {
								t.Error(one, ok, err)
							}
							f.Reschedule()
						case !ok:
							return nil
						default:
							note(one, last)
						}
					}
				})
				receiverGoroutines.Add(1)
				go func() {
					defer receiverGoroutines.Done()
					last := fresh()
					for one := range ch {
						note(one, last)
					}
				}()
			}
			if err := sending.Wait(); err != nil {
				t.Error(err)
			}
			Await(f, func(context.Context) (int, error) { others.Wait(); return 0, nil })
			close(ch)
			if err := receiving.Wait(); err != nil {
				t.Error(err)
			}
			receiverGoroutines.Wait()
			for s := range 2 * senders {
				for i := range count {
					if n := got[item{s, i}]; n != 1 {
						t.Errorf("capacity %d: %v came %d times", capacity, item{s, i}, n)
					}
				}
			}
		})
	}
}

// Sends count values from one fiber to another of the same Run, over a channel of that capacity.
func fiberToFiber(b *testing.B, capacity, count int) {
	ch := make(chan int, capacity)
	benchRun(b, func(f *Fiber) {
		group := f.Group()
		group.Go(func(f *Fiber) error {
			for i := range count {
				if err := Send(f, ch, i); err != nil {
					return err
				}
			}
			return nil
		})
		group.Go(func(f *Fiber) error { return receiveAll(b, f, ch, count) })
		b.ResetTimer()
		if err := group.Wait(); err != nil {
			b.Error(err)
		}
		b.StopTimer()
	})
}

func goroutineToFiber(b *testing.B, capacity, count int) {
	ch := make(chan int, capacity)
	benchRun(b, func(f *Fiber) {
		b.ResetTimer()
		go func() {
			for i := range count {
				ch <- i
			}
		}()
		if err := receiveAll(b, f, ch, count); err != nil {
			b.Error(err)
		}
		b.StopTimer()
	})
}

func fiberToGoroutine(b *testing.B, capacity, count int) {
	ch := make(chan int, capacity)
	benchRun(b, func(f *Fiber) {
		b.ResetTimer()
		ended := make(chan struct{})
		go func() {
			for range count {
				<-ch
			}
			close(ended)
		}()
		for i := range count {
			if err := Send(f, ch, i); err != nil {
				b.Error(err)
			}
		}
		Recv(f, ended)
		b.StopTimer()
	})
}

func goroutineToGoroutine(b *testing.B, capacity, count int) {
	ch := make(chan int, capacity)
	b.ResetTimer()
	go func() {
		for i := range count {
			ch <- i
		}
	}()
	for range count {
		<-ch
	}
	b.StopTimer()
}

func receiveAll(b *testing.B, f *Fiber, ch <-chan int, count int) error {
	for i := range count {
		value, ok, err := Recv(f, ch)
		if err != nil {
			return err
		}
		if value != i || !ok {
			b.Errorf("received %d, %v instead of %d", value, ok, i)
		}
	}
	return nil
}

func BenchmarkChannelFiberToFiber(b *testing.B)         { fiberToFiber(b, 0, b.N) }
func BenchmarkChannelFiberToFiber10(b *testing.B)       { fiberToFiber(b, 10, b.N) }
func BenchmarkChannelGoroutineToFiber(b *testing.B)     { goroutineToFiber(b, 0, b.N) }
func BenchmarkChannelGoroutineToFiber10(b *testing.B)   { goroutineToFiber(b, 10, b.N) }
func BenchmarkChannelFiberToGoroutine(b *testing.B)     { fiberToGoroutine(b, 0, b.N) }
func BenchmarkChannelGoroutineToGoroutine(b *testing.B) { goroutineToGoroutine(b, 0, b.N) }
