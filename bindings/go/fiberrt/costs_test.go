// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// The measured waits, and their number per round.
var waitCosts = []struct {
	name    string
	count   int
	measure func(b *testing.B)
}{
	{"goroutines: unbuffered channel, an item", 5000, func(b *testing.B) { goroutineToGoroutine(b, 0, b.N) }},
	{"goroutines: `runtime.Gosched`, one of 2", 5000, func(b *testing.B) { benchGosched(b, 2) }},
	{"`Reschedule`, one of 2 fibers", 5000, func(b *testing.B) { benchReschedule(b, 2) }},
	{"`Send` and `Recv` between fibers of one `Run`, unbuffered, an item", 5000, func(b *testing.B) { fiberToFiber(b, 0, b.N) }},
	{"the same between fibers, with a buffer of 10", 5000, func(b *testing.B) { fiberToFiber(b, 10, b.N) }},
	{"`Recv` from a goroutine, unbuffered, an item", 200, func(b *testing.B) { goroutineToFiber(b, 0, b.N) }},
	{"the same from a goroutine, with a buffer of 10", 500, func(b *testing.B) { goroutineToFiber(b, 10, b.N) }},
	{"`Send` to a goroutine, unbuffered, an item", 200, func(b *testing.B) { fiberToGoroutine(b, 0, b.N) }},
	{"`Spawn` and `Join`", 2000, BenchmarkSpawn},
	{"`Sleep(0)`", 2000, BenchmarkSleep0},
	{"`Await` of a function that returns at once", 200, BenchmarkAwait},
	{"a byte there and back over TCP, between 2 fibers", 500, fiberTCP},
	{"goroutines: the same with package net", 500, goroutineTCP},
}

// Sends a byte there and back, again and again.
func fiberTCP(b *testing.B) {
	benchRun(b, func(f *Fiber) {
		l, err := Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		echo := f.Spawn(func(f *Fiber) {
			accepted, err := l.On(f).Accept()
			if err != nil {
				b.Error(err)
				return
			}
			c := accepted.On(f)
			defer c.Close()
			for buffer := make([]byte, 1); ; {
				if _, err := c.Read(buffer); err != nil {
					return
				}
				c.Write(buffer)
			}
		})
		c, err := f.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		b.ResetTimer()
		thereAndBack(b, c)
		b.StopTimer()
		c.Close()
		f.Join(echo)
		l.On(f).Close()
	})
}

func goroutineTCP(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		for buffer := make([]byte, 1); ; {
			if _, err := c.Read(buffer); err != nil {
				return
			}
			c.Write(buffer)
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Error(err)
		return
	}
	defer c.Close()
	b.ResetTimer()
	thereAndBack(b, c)
	b.StopTimer()
}

func thereAndBack(b *testing.B, c interface {
	Read([]byte) (int, error)
	Write([]byte) (int, error)
}) {
	buffer := make([]byte, 1)
	for range b.N {
		if _, err := c.Write(buffer); err != nil {
			b.Error(err)
			return
		}
		if _, err := c.Read(buffer); err != nil {
			b.Error(err)
			return
		}
	}
}

// Prints, with -v, the README's table of the costs of waits for this machine: the lowest and the median of interleaved
// rounds. Fails if the rows of the README's table differ.
func TestWaitCosts(t *testing.T) {
	const rounds = 15
	took := make([][]float64, len(waitCosts))
	for range rounds {
		for i, cost := range waitCosts {
			part := &testing.B{N: cost.count}
			part.ResetTimer()
			part.StartTimer()
			cost.measure(part)
			part.StopTimer()
			if part.Failed() {
				t.Fatal(cost.name, "has failed")
			}
			took[i] = append(took[i], float64(part.Elapsed().Nanoseconds())/float64(cost.count))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	table := "| what | ns, lowest | ns, median | lowest, of a goroutine's channel |\n|---|---|---|---|\n"
	var names []string
	for i, cost := range waitCosts {
		lowest := took[i][0]
		table += fmt.Sprintf("| %s | %.0f | %.0f | %.1f |\n", cost.name, lowest, took[i][rounds/2], lowest/took[0][0])
		names = append(names, cost.name)
	}
	t.Logf("%s, GOMAXPROCS %d, %s\n%s", runtime.Version(), runtime.GOMAXPROCS(0), time.Now().Format(time.DateOnly), table)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(readme), "## What a wait costs\n")
	if !found {
		t.Fatal("the README has no table")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [0-9,]+ \| [0-9,]+ \| [0-9.]+ \|$`).FindAllStringSubmatch(section, -1) {
		rows = append(rows, row[1])
	}
	if !slices.Equal(rows, names) {
		t.Errorf("the rows of the README are\n%s\nnot\n%s", strings.Join(rows, "\n"), strings.Join(names, "\n"))
	}
}
