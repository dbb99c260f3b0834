// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.com/fiberrt/bindings/go/internal/ctest"
	"example.com/fiberrt/bindings/go/internal/raw"
)

// Runs fn on a goroutine, and waits for it: so that fn does not look from the thread of f's Run.
func elsewhere(t *testing.T, f *Fiber, fn func()) {
	t.Helper()
	if _, err := Await(f, func(context.Context) (int, error) { fn(); return 0, nil }); err != nil {
		t.Error(err)
	}
}

// Returns the fiber's info once its wait has begun; the test hangs otherwise, which run detects.
func waitsFor(t *testing.T, f *Fiber, begins string) FiberInfo {
	t.Helper()
	for {
		info, err := f.Info()
		if err != nil {
			t.Error(err)
			return info
		}
		if info.Still && strings.HasPrefix(info.Wait, begins) {
			return info
		}
		time.Sleep(time.Millisecond)
	}
}

func ends(f *Fiber, others ...*Fiber) {
	for _, other := range others {
		other.Cancel()
		f.Join(other)
	}
}

type named struct{}

func (named) waitsForAVeryLongTimeInAMethod(f *Fiber) { f.Sleep(time.Hour) }

func TestNamesOfFibers(t *testing.T) {
	run(t, func(f *Fiber) {
		group := f.Group()
		group.Go(func(f *Fiber) error { return f.Sleep(time.Hour) })
		children := map[string]*Fiber{
			"fiberrt.TestNamesOfFibers.func1":  f,
			"fiberrt.thisSleeps":               f.Spawn(thisSleeps),
			"...erylongTimeInAMethod":          f.Spawn(named{}.waitsForAVeryLongTimeInAMethod),
			"fiberrt.TestNamesOfFibers.func1.": group.children[0],
		}
		f.Reschedule()
		for name, child := range children {
			info, err := child.Info()
			if err != nil || info.Name != child.Name() || len(info.Name) > 31 {
				t.Errorf("%q, not %q: %v", info.Name, child.Name(), err)
			}
			if cut, _ := strings.CutPrefix(name, "..."); cut != name {
				if !strings.HasPrefix(info.Name, "...") || !strings.HasSuffix(info.Name, "TimeInAMethod") || len(info.Name) != 31 {
					t.Error(info.Name)
				}
			} else if !strings.HasPrefix(info.Name, name[:min(len(name), 28)]) && !strings.HasPrefix(info.Name, "...") {
				t.Errorf("%q instead of %q", info.Name, name)
			}
			if !strings.HasPrefix(info.FunctionName, thisPackage) {
				t.Error(info.FunctionName)
			}
		}
		if name := f.Name(); name != "fiberrt.TestNamesOfFibers.func1" {
			t.Error(name)
		}
		for name, kept := range map[string]string{
			"short": "short", "": "", "before\x00after": "before", "0123456789abcdef0123456789abcdef": "0123456789abcdef0123456789abcde",
		} {
			f.SetName(name)
			if info, err := f.Info(); err != nil || info.Name != kept || f.Name() != kept {
				t.Errorf("%q and %q instead of %q", info.Name, f.Name(), kept)
			}
		}
		sleeper := children["fiberrt.thisSleeps"]
		ends(f, sleeper, children["...erylongTimeInAMethod"])
		if name := sleeper.Name(); name != "fiberrt.thisSleeps" {
			t.Error("after the end ", name)
		}
		if _, err := sleeper.Info(); !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
		group.Cancel(nil)
		group.Wait()
	})
	if _, err := new(Fiber).Info(); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
}

// Each wait of a fiber for Go has a reason, for every thread that looks.
func TestWaitsHaveReasons(t *testing.T) {
	c := startCord(t)
	future := c.SpawnC(ctest.Sleeps, pinned(t, int64(time.Hour)))
	run(t, func(f *Fiber) {
		ch, full, none := make(chan int), make(chan int), chan int(nil)
		sleeper := f.Spawn(thisSleeps)
		gate := make(chan struct{})
		fibers := map[string]*Fiber{
			"sleeps":                                           sleeper,
			"waits in Await for a goroutine":                   f.Spawn(func(f *Fiber) { Await(f, func(context.Context) (int, error) { <-gate; return 0, nil }) }),
			"waits in Recv on a Go channel":                    f.Spawn(func(f *Fiber) { Recv(f, ch) }),
			"waits in Send on a Go channel":                    f.Spawn(func(f *Fiber) { Send(f, full, 1) }),
			"waits in Recv on a nil channel":                   f.Spawn(func(f *Fiber) { Recv(f, none) }),
			"waits in Send on a nil channel":                   f.Spawn(func(f *Fiber) { Send(f, none, 1) }),
			"waits in Join for fiber " + sleeper.ID().String(): f.Spawn(func(f *Fiber) { f.Join(sleeper) }),
			"waits in Group.Wait for the group's fibers": f.Spawn(func(f *Fiber) {
				group := f.Group()
				group.Go(func(f *Fiber) error { return f.Sleep(time.Hour) })
				group.Wait()
			}),
			"waits in WaitOn for a C function": f.Spawn(func(f *Fiber) { future.WaitOn(f) }),
		}
		look := func() {
			for reason, child := range fibers {
				info := waitsFor(t, child, reason)
				about := map[string]ID{
					"waits in Recv on a Go channel":                    ID(uintptr(channelOf(ch))),
					"waits in Send on a Go channel":                    ID(uintptr(channelOf(full))),
					"waits in Join for fiber " + sleeper.ID().String(): sleeper.ID(),
				}[reason]
				by := ID(0)
				if about == sleeper.ID() {
					by = about
				}
				if info.Wait != reason || info.State != "waiting" || info.WaitFd != -1 || info.WaitObject != about || info.WaitFiber != by {
					t.Errorf("%+v, not %q", info, reason)
				}
				if (info.WaitLeft != nil) != (reason == "sleeps") {
					t.Error(info.WaitLeft)
				}
			}
		}
		elsewhere(t, f, look)
		look()
		var text bytes.Buffer
		elsewhere(t, f, func() {
			if err := WriteDump(&text, 0); err != nil {
				t.Error(err)
			}
		})
		for reason, child := range fibers {
			line := fmt.Sprintf("fiber %s \"%s\" of cord", child.ID(), child.Name())
			_, after, found := strings.Cut(text.String(), line)
			after, _, _ = strings.Cut(after, "\n")
			if !found || !strings.Contains(after, ": "+reason) {
				t.Errorf("no %q with %q in %s", line, reason, text.String())
			}
		}
		for _, words := range []string{`"fiberrt.Run"`, `"fiberrt.Run: service"`, "waits for requests to its Run"} {
			if !strings.Contains(text.String(), words) {
				t.Errorf("no %s in %s", words, text.String())
			}
		}
		close(gate)
		for _, child := range fibers {
			ends(f, child)
		}
	})
}

// A reason belongs to one wait: the fiber's next operation has none.
func TestReasonsEndWithTheirWaits(t *testing.T) {
	run(t, func(f *Fiber) {
		child := f.Spawn(func(f *Fiber) {
			if _, err := Await(f, func(context.Context) (int, error) { return 0, nil }); err != nil {
				t.Error(err)
			}
			if err := f.Sleep(0); err != nil {
				t.Error(err)
			}
			for range 2 * callsAlone { // some of these go through the cord
				if err := f.Reschedule(); err != nil {
					t.Error(err)
				}
			}
			f.Sleep(time.Hour)
		})
		elsewhere(t, f, func() { waitsFor(t, child, "sleeps") })
		ends(f, child)
	})
}

func TestFibersThatJoinEachOtherAreADeadlock(t *testing.T) {
	run(t, func(f *Fiber) {
		var one, other *Fiber
		one = f.Spawn(func(f *Fiber) { f.Join(other) })
		other = f.Spawn(func(f *Fiber) { f.Join(one) })
		elsewhere(t, f, func() {
			waitsFor(t, one, "waits in Join")
			waitsFor(t, other, "waits in Join")
			report, err := ReadDump(0)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, circle := range report.Deadlocks {
				found = found || len(circle) == 2 && slices.Contains(circle, one.ID()) && slices.Contains(circle, other.ID())
			}
			if !found {
				t.Error(report.Deadlocks)
			}
		})
		ends(f, one, other)
	})
}

func fiberIn(report *DumpReport, id ID) *FiberInfo {
	for i := range report.Fibers {
		if report.Fibers[i].ID == id {
			return &report.Fibers[i]
		}
	}
	return nil
}

func TestReadDump(t *testing.T) {
	c := startCord(t)
	c.SpawnC(ctest.Sleeps, pinned(t, int64(time.Hour)))
	run(t, func(f *Fiber) {
		child := f.Spawn(thisSleeps)
		elsewhere(t, f, func() {
			waitsFor(t, child, "sleeps")
			report, err := ReadDump(DumpFrames)
			if err != nil {
				t.Fatal(err)
			}
			if report.PID != os.Getpid() || report.Version == "" || report.Now <= 0 || len(report.Cords) < 2 || report.Groups != nil {
				t.Errorf("%+v", report)
			}
			info := fiberIn(report, child.ID())
			if info == nil {
				t.Fatal("the fiber is missing")
			}
			if info.Name != "fiberrt.thisSleeps" || info.FunctionName != thisPackage+"thisSleeps" || info.Wait != "sleeps" ||
				info.WaitLeft == nil || *info.WaitLeft <= 0 || *info.WaitLeft > time.Hour || !info.Detached {
				t.Errorf("%+v", info)
			}
			functions := []string{}
			for _, frame := range info.GoFrames {
				functions = append(functions, frame.Function)
				if !strings.HasSuffix(frame.File, ".go") || frame.Line <= 0 {
					t.Error(frame)
				}
			}
			if !slices.Equal(functions, []string{thisPackage + "(*Fiber).Sleep", thisPackage + "thisSleeps"}) {
				t.Error(functions)
			}
			cord := slices.IndexFunc(report.Cords, func(cord CordInfo) bool { return cord.ID == info.Cord })
			if cord < 0 || report.Cords[cord].Fibers < 3 || report.Cords[cord].Thread <= 0 || report.Cords[cord].Name != "fiberrt.Run" {
				t.Error(report.Cords)
			}
			if !slices.ContainsFunc(report.Cords, func(cord CordInfo) bool { return cord.Name == t.Name()[:min(15, len(t.Name()))] }) {
				t.Error(report.Cords)
			}
		})
		ends(f, child)
	})
}

// The fibers that run C functions for goroutines have the names of these functions.
func TestNamesOfCFunctions(t *testing.T) {
	c := startCord(t)
	future := c.SpawnC(ctest.Sleeps, pinned(t, int64(time.Hour)))
	want := raw.Symbol(ctest.Sleeps)
	if want == "" {
		want = "C function without a symbol"
	}
	for found := false; !found; time.Sleep(time.Millisecond) {
		report, err := ReadDump(DumpFrames)
		if err != nil {
			t.Fatal(err)
		}
		found = slices.ContainsFunc(report.Fibers, func(info FiberInfo) bool { return info.Name == want })
	}
	future.Cancel()
	future.Wait(background)
}

func TestGroupsOfFibers(t *testing.T) {
	const count = 50
	run(t, func(f *Fiber) {
		var children []*Fiber
		for range count {
			children = append(children, f.Spawn(thisSleeps))
		}
		elsewhere(t, f, func() {
			for _, child := range children {
				waitsFor(t, child, "sleeps")
			}
			report, err := ReadDump(DumpGrouped)
			if err != nil || report.Fibers != nil {
				t.Fatal(err, report.Fibers)
			}
			group := slices.IndexFunc(report.Groups, func(group FiberGroup) bool {
				return len(group.GoFrames) > 0 && group.GoFrames[len(group.GoFrames)-1].Function == thisPackage+"thisSleeps"
			})
			if group < 0 || report.Groups[group].Count != count || len(report.Groups[group].Fibers) != idsOfGroup ||
				report.Groups[group].Wait != "sleeps" {
				t.Fatalf("%+v", report.Groups)
			}
			if !slices.IsSortedFunc(report.Groups, func(a, b FiberGroup) int { return b.Count - a.Count }) {
				t.Errorf("%+v", report.Groups)
			}
			var text bytes.Buffer
			if err := WriteDump(&text, DumpGrouped|DumpFrames); err != nil {
				t.Error(err)
			}
			line := fmt.Sprintf("\n%d fibers: sleeps ← fiberrt.(*Fiber).Sleep ← fiberrt.thisSleeps\n    fiber ", count)
			if !strings.Contains(text.String(), line) || !strings.Contains(text.String(), "    go #1 "+thisPackage+"thisSleeps (") {
				t.Errorf("no %q in %s", line, text.String())
			}
		})
		ends(f, children...)
	})
}

func TestDumpAsJSON(t *testing.T) {
	run(t, func(f *Fiber) {
		child := f.Spawn(thisSleeps)
		f.Reschedule()
		for _, flags := range []DumpFlags{0, DumpFrames, DumpGrouped, DumpFrames | DumpGrouped} {
			var text bytes.Buffer
			if err := WriteDump(&text, flags|DumpJSON); err != nil {
				t.Fatal(err)
			}
			var report DumpReport
			if err := json.Unmarshal(text.Bytes(), &report); err != nil || !bytes.HasSuffix(text.Bytes(), []byte("}\n")) {
				t.Fatal(err, text.String())
			}
			if info := fiberIn(&report, child.ID()); (info == nil) != (flags&DumpGrouped != 0) {
				t.Errorf("flags %d: %s", flags, text.String())
			} else if info != nil && (len(info.GoFrames) == 0) != (flags&DumpFrames == 0) {
				t.Errorf("flags %d: %+v", flags, info)
			}
			if !strings.Contains(text.String(), `"`+child.ID().String()+`"`) {
				t.Error(text.String())
			}
		}
		ends(f, child)
	})
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestDumpsWithBadArguments(t *testing.T) {
	for _, flags := range []DumpFlags{8, DumpFrames | 1<<20, DumpJSON | 16, DumpGrouped | 8} {
		if err := WriteDump(new(bytes.Buffer), flags); !errors.Is(err, syscall.EINVAL) {
			t.Error(flags, err)
		}
	}
	for _, flags := range []DumpFlags{8, DumpJSON, DumpGrouped | 16} {
		if report, err := ReadDump(flags); !errors.Is(err, syscall.EINVAL) || report != nil {
			t.Error(flags, err)
		}
	}
	run(t, func(f *Fiber) {
		for _, flags := range []DumpFlags{0, DumpFrames, DumpGrouped, DumpJSON} {
			if err := WriteDump(full{}, flags); err != errFull {
				t.Error(flags, err)
			}
		}
		if err := WriteMetrics(full{}); err != errFull {
			t.Error(err)
		}
	})
	var id ID
	if err := json.Unmarshal([]byte(`"0xz"`), &id); err == nil {
		t.Error(id)
	}
}

// Dumps read the names, reasons and stacks of fibers that begin, wait and end meanwhile.
func TestDumpsOfFibersThatCome(t *testing.T) {
	run(t, func(f *Fiber) {
		stop := make(chan struct{})
		var looks sync.WaitGroup
		for _, flags := range []DumpFlags{DumpFrames, DumpGrouped} {
			looks.Add(1)
			go func() {
				defer looks.Done()
				for range 20 {
					report, err := ReadDump(flags)
					if err != nil {
						t.Error(err)
						continue
					}
					for _, info := range report.Fibers {
						if strings.ContainsFunc(info.Wait, func(r rune) bool { return r < ' ' || r > '~' }) {
							t.Errorf("%q", info.Wait)
						}
					}
				}
			}()
		}
		go func() { looks.Wait(); close(stop) }()
		for done := false; !done; {
			group, ch := f.Group(), make(chan int)
			for range 10 {
				group.Go(func(f *Fiber) error { f.SetName("a"); _, _, err := Recv(f, ch); return err })
				group.Go(func(f *Fiber) error { return f.Sleep(time.Microsecond) })
			}
			elsewhere(t, f, func() { close(ch) })
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				done = true
			default:
			}
		}
	})
}
