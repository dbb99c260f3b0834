// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func withAccounting(t *testing.T) {
	t.Helper()
	if err := StartAccounting(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := StopAccounting(); err != nil {
			t.Error(err)
		}
	})
}

func spins(f *Fiber) {
	for until := time.Now().Add(20 * time.Millisecond); time.Now().Before(until); {
		f.Reschedule()
	}
	f.Sleep(10 * time.Millisecond)
}

func sumOf(t *testing.T, name string) TimesSum {
	t.Helper()
	sums, err := SumTimes(ByName)
	if err != nil {
		t.Fatal(err)
	}
	place := slices.IndexFunc(sums, func(sum TimesSum) bool { return sum.Name == name })
	if place < 0 {
		t.Fatalf("no %s in %+v", name, sums)
	}
	if !slices.IsSortedFunc(sums, func(a, b TimesSum) int { return int(min(1, max(-1, b.Run-a.Run))) }) {
		t.Errorf("%+v", sums)
	}
	return sums[place]
}

func TestTimesOfFibers(t *testing.T) {
	withAccounting(t)
	if err := StartAccounting(); !errors.Is(err, syscall.EALREADY) {
		t.Error(err)
	}
	run(t, func(f *Fiber) {
		child := f.Spawn(func(f *Fiber) {
			spins(f)
			times, err := f.Times()
			if err != nil || times.Fibers != 1 || times.Turns < 2 || times.Run <= 0 || times.Wait.Time < 9*time.Millisecond {
				t.Errorf("%+v: %v", times, err)
			}
			if total := times.Wait.Total(); total < times.Wait.Time || total < times.Wait.Other {
				t.Error(total, times.Wait)
			}
		})
		f.Spawn(spins)
		f.Spawn(spins)
		f.Join(child)
		if hub := sumOf(t, "fiberrt.Run"); hub.Run < 0 || hub.Fibers == 0 { // while it lives: its end takes a moment
			t.Errorf("%+v", hub)
		}
		for _, info := range []func() error{
			func() error { _, err := child.Times(); return err },
			func() error { _, err := child.Info(); return err },
		} {
			if err := info(); !errors.Is(err, syscall.ESRCH) {
				t.Error(err)
			}
		}
	})
	sum := sumOf(t, "fiberrt.spins")
	// Each has yielded for 20 ms, and the three have had the thread by turns.
	if sum.Fibers != 2 || sum.Turns < 4 || sum.Run <= 0 || sum.Wait.Time < 18*time.Millisecond || sum.Others {
		t.Errorf("%+v", sum)
	}
	sums, err := SumTimes(ByFunction)
	if err != nil || !slices.ContainsFunc(sums, func(sum TimesSum) bool { return sum.Function == "" && sum.Fibers >= 3 }) {
		t.Errorf("%+v: %v", sums, err)
	}
}

// A fiber that lives counts in the sums once, and so does one that has ended. A dump has the same times.
func TestTimesOfALivingFiber(t *testing.T) {
	withAccounting(t)
	run(t, func(f *Fiber) {
		child := f.Spawn(func(f *Fiber) {
			f.SetName("the-spinner")
			spins(f)
			f.Sleep(time.Hour)
		})
		elsewhere(t, f, func() {
			for { // until its last wait: then its times no longer change, except for this wait
				waitsFor(t, child, "sleeps")
				if info, err := child.Info(); err == nil && info.WaitLeft != nil && *info.WaitLeft > time.Minute {
					break
				}
			}
			times, err := child.Times()
			if err != nil {
				t.Fatal(err)
			}
			if sum := sumOf(t, "the-spinner"); sum.Run != times.Run || sum.Turns != times.Turns || sum.Fibers != 1 {
				t.Errorf("%+v instead of %+v", sum, times)
			}
			report, err := ReadDump(0)
			if err != nil {
				t.Fatal(err)
			}
			info := fiberIn(report, child.ID())
			if info == nil || info.Run != times.Run || info.Turns != times.Turns || info.Waits["time"] < times.Wait.Time {
				t.Errorf("%+v instead of %+v", info, times)
			}
		})
		before := sumOf(t, "the-spinner")
		ends(f, child)
		if sum := sumOf(t, "the-spinner"); sum.Fibers != 1 || sum.Turns <= before.Turns || sum.Run < before.Run {
			t.Errorf("%+v after %+v", sum, before)
		}
	})
}

func TestTimesWithoutAccounting(t *testing.T) {
	run(t, func(f *Fiber) {
		if _, err := f.Times(); !errors.Is(err, syscall.ENODATA) {
			t.Error(err)
		}
	})
	if _, err := SumTimes(ByName); !errors.Is(err, syscall.ENODATA) {
		t.Error(err)
	}
	if err := StopAccounting(); !errors.Is(err, syscall.EALREADY) {
		t.Error(err)
	}
	for _, by := range []TimesBy{-1, 2, 100} {
		if _, err := SumTimes(by); !errors.Is(err, syscall.EINVAL) {
			t.Error(by, err)
		}
	}
}

// Each accounting begins at zero.
func TestTimesBeginAtZero(t *testing.T) {
	for range 3 {
		if err := StartAccounting(); err != nil {
			t.Fatal(err)
		}
		run(t, func(f *Fiber) { f.Join(f.Spawn(spins)) })
		if sum := sumOf(t, "fiberrt.spins"); sum.Fibers != 1 {
			t.Errorf("%+v", sum)
		}
		if err := StopAccounting(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "part.pftrace")
	file, err := os.Create(path + ".file")
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range []TraceOptions{{Path: path}, {File: file, RingEvents: 1000}} {
		if err := StartTrace(options); err != nil {
			t.Fatal(err)
		}
		if err := StartTrace(options); !errors.Is(err, syscall.EBUSY) {
			t.Error(err)
		}
		if stats := ReadTraceStats(); !stats.Running || stats.Err != nil {
			t.Errorf("%+v", stats)
		}
		run(t, func(f *Fiber) {
			f.Join(f.Spawn(func(f *Fiber) {
				f.SetName("the-traced")
				if err := f.TraceBegin("a slice of the program"); err != nil {
					t.Error(err)
				}
				f.TraceBegin("within it\x00 and cut")
				f.Sleep(time.Millisecond)
				f.TraceEnd()
				if err := f.TraceEnd(); err != nil {
					t.Error(err)
				}
				if err := f.TraceEnd(); err != nil {
					t.Error("without a slice", err)
				}
			}))
		})
		if err := StopTrace(); err != nil {
			t.Fatal(err)
		}
		if stats := ReadTraceStats(); stats.Running || stats.Events == 0 || stats.Bytes == 0 {
			t.Errorf("%+v", stats)
		}
	}
	if err := StopTrace(); !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
	for _, name := range []string{path, path + ".file"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range []string{"the-traced", "a slice of the program", "within it", "sleeps", "handed out to its host"} {
			if !bytes.Contains(text, []byte(words)) {
				t.Errorf("no %q in the trace", words)
			}
		}
	}
	file.Close()
	for options, want := range map[TraceOptions]error{
		{}: syscall.EINVAL, {Path: path, File: file}: syscall.EINVAL, {Path: path, RingEvents: -1}: syscall.EINVAL,
		{Path: path, RingEvents: 1 << 40}: syscall.EINVAL, {Path: path, RingEvents: 1 << 30}: syscall.EINVAL,
		{Path: path + "\x00"}: syscall.EINVAL, {File: file}: syscall.EBADF, {Path: path + "/none"}: syscall.ENOTDIR,
	} {
		if err := StartTrace(options); !errors.Is(err, want) {
			t.Errorf("%+v: %v", options, err)
		}
	}
	run(t, func(f *Fiber) { // there is no trace
		if err := errors.Join(f.TraceBegin("x"), f.TraceEnd()); err != nil {
			t.Error(err)
		}
	})
}

func TestMetrics(t *testing.T) {
	run(t, func(f *Fiber) {
		var text bytes.Buffer
		if err := WriteMetrics(&text); err != nil {
			t.Error(err)
		}
		if !strings.HasSuffix(text.String(), "# EOF\n") || !strings.Contains(text.String(), "fiberrt_cord_switches_total{") {
			t.Error(text.String())
		}
	})
}

func TestAgent(t *testing.T) {
	folder, err := os.MkdirTemp("", "agent") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "socket")
	if err := StartAgent(path); err != nil {
		t.Fatal(err)
	}
	if found, err := os.Stat(path); err != nil || found.Mode()&os.ModeSocket == 0 {
		t.Error(found, err)
	}
	if err := StartAgent(path); !errors.Is(err, syscall.EBUSY) {
		t.Error(err)
	}
	if err := StopAgent(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := StopAgent(); !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
	for bad, want := range map[string]error{
		"": syscall.EINVAL, path + "\x00": syscall.EINVAL, "/" + strings.Repeat("x", 200): syscall.ENAMETOOLONG,
	} {
		if err := StartAgent(bad); !errors.Is(err, want) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
