// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// How long fibers run and wait. The library measures how long a fiber of Go waits, but not how long it runs: it hands
// out several fibers at a time, and the hub gives each its turn. So the hub measures the turns.

package fiberrt

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Times are the times of a fiber, or of several added up, since accounting was turned on. The clock runs on while a
// thread has no processor.
type Times struct {
	Fibers   uint64        // how many fibers these are
	Turns    uint64        // how often they got the thread
	Run      time.Duration // how long they had it
	Runnable time.Duration // how long they were runnable, and other fibers had the thread
	Wait     Waits
}

// Waits says how long fibers waited, by the kind of the wait.
type Waits struct {
	Time     time.Duration // sleeps
	IO       time.Duration // operations on descriptors and connections
	Lock     time.Duration // locks of C code
	Channel  time.Duration // the library's channels, of C code
	Fiber    time.Duration // the end of another fiber of C
	Children time.Duration // the children of a scope of C
	Wakeup   time.Duration // of Go: Await, Join, Group.Wait, WaitOn, and Recv and Send once all fibers of the Run wait
	Other    time.Duration // of Go: the next turn among the fibers of the Run; Recv and Send until all of them wait
}

// Total returns the sum.
func (w *Waits) Total() (total time.Duration) {
	for _, wait := range w.byKind() {
		total += *wait
	}
	return total
}

func (w *Waits) byKind() [raw.WaitKinds]*time.Duration {
	return [...]*time.Duration{
		raw.WaitTime: &w.Time, raw.WaitIO: &w.IO, raw.WaitLock: &w.Lock, raw.WaitChannel: &w.Channel, raw.WaitFiber: &w.Fiber,
		raw.WaitChildren: &w.Children, raw.WaitWakeup: &w.Wakeup, raw.WaitOther: &w.Other,
	}
}

var waitKinds = [...]string{
	raw.WaitTime: "time", raw.WaitIO: "io", raw.WaitLock: "lock", raw.WaitChannel: "channel", raw.WaitFiber: "fiber",
	raw.WaitChildren: "children", raw.WaitWakeup: "wakeup", raw.WaitOther: "other",
}

// TimesBy says which fibers [SumTimes] adds up.
type TimesBy int

const (
	// ByName adds up fibers of one name: of Go, those that run one function, unless they have called [Fiber.SetName].
	ByName TimesBy = raw.ByName

	// ByFunction adds up fibers of C by their functions. All fibers of Go are in one sum, without a function.
	ByFunction TimesBy = raw.ByFunction
)

// TimesSum is a sum of [SumTimes].
type TimesSum struct {
	Times
	Name     string // with ByName
	Function string // with ByFunction: the name of an exported C function, or its address
	Others   bool   // fibers that have ended, and for which the cord's table of sums had no place
}

// The number of the accounting that is on, from 1; 0: it is off.
var accounting atomic.Uint32

var accountings struct {
	sync.Mutex
	count uint32
	ended map[string]goTimes // by name: the times of the fibers of Go that have ended during this accounting
}

// What Go has measured of a fiber.
type goTimes struct {
	turns uint64
	run   time.Duration
}

// The part of a Fiber that the hub writes while accounting is on.
type meter struct {
	mu     sync.Mutex
	number uint32 // of the accounting
	goTimes
	kept bool // these times are in accountings.ended
}

// StartAccounting turns accounting on, for all fibers of the process, of Go and of C. All times begin at zero. A turn
// of a fiber of Go then costs some 100 ns more. FIBERRT_ACCOUNTING=1 in the environment turns it on at the first [Run].
// Anywhere. Since 0.1.
//
// The error is an [Error]: [syscall.EALREADY] if it is on; [syscall.ENOMEM]; [syscall.ENOTSUP] in a simulation.
func StartAccounting() error {
	accountings.Lock()
	defer accountings.Unlock()
	if result := inSimulation(); result < 0 {
		return failure("StartAccounting", int64(result))
	}
	if result := raw.AccountingStart(); result < 0 {
		if result == -int(syscall.EALREADY) {
			followAccounting()
		}
		return failure("StartAccounting", int64(result))
	}
	accounting.Store(0) // C code may have turned an earlier one off
	followAccounting()
	return nil
}

// Makes the hubs measure. The caller holds the lock.
func followAccounting() {
	if accounting.Load() == 0 {
		accountings.count++
		accountings.ended = map[string]goTimes{}
		accounting.Store(accountings.count)
	}
}

// Each hub calls this once, because the environment, or C code, may have turned accounting on.
func noticeAccounting(fiber raw.Fiber) {
	if _, result := raw.ReadTimes(fiber); result != -int(syscall.ENODATA) {
		accountings.Lock()
		followAccounting()
		accountings.Unlock()
	}
}

// StopAccounting turns accounting off. The times are gone. Anywhere. Since 0.1.
//
// The error is an [Error]: [syscall.EALREADY] if it is off; [syscall.ENOMEM].
func StopAccounting() error {
	accountings.Lock()
	defer accountings.Unlock()
	if result := raw.AccountingStop(); result < 0 {
		return failure("StopAccounting", int64(result))
	}
	accounting.Store(0)
	accountings.ended = nil
	return nil
}

// Times returns the times of the fiber. Anywhere. Since 0.1.
//
// The error is an [Error]: [syscall.ENODATA] if accounting is off; [syscall.EAGAIN] if the Run has made no operation
// since it was turned on; [syscall.ESRCH] if the fiber has ended ([SumTimes] has its times); [syscall.ENOMEM];
// [syscall.EINVAL] if the fiber could not be made.
func (f *Fiber) Times() (Times, error) {
	in, result := raw.ReadTimes(f.handle)
	if result < 0 {
		return Times{}, failure("Times", int64(result))
	}
	times := timesOf(&in)
	measured, _ := f.metered()
	times.add(measured)
	return times, nil
}

func timesOf(in *raw.Times) Times {
	times := Times{
		Fibers: in.Fibers, Turns: in.Turns, Run: time.Duration(in.Run), Runnable: time.Duration(in.Runnable),
	}
	for kind, wait := range times.Wait.byKind() {
		*wait = time.Duration(in.Wait[kind])
	}
	return times
}

// Adds what Go has measured. The library counts a fiber that Go runs, or that waits in Go for its turn, as waiting for
// something else.
func (t *Times) add(measured goTimes) {
	t.Turns += measured.turns
	t.Run += measured.run
	t.Wait.Other = max(0, t.Wait.Other-measured.run)
}

// SumTimes returns the times of all fibers of the process, also of those that have ended, added up. The sum with the
// longest run time comes first. The flow of a [Run] that gives the fibers their turns has the name "fiberrt.Run".
// Anywhere. Since 0.1.
//
// The error is an [Error]: [syscall.ENODATA] if accounting is off; [syscall.ENOMEM]; [syscall.EINVAL] if by is unknown.
func SumTimes(by TimesBy) ([]TimesSum, error) {
	if by != ByName && by != ByFunction {
		return nil, failure("SumTimes", -int64(syscall.EINVAL))
	}
	all, result := raw.Sums(int(by))
	if result < 0 {
		return nil, failure("SumTimes", int64(result))
	}
	sums := make([]TimesSum, len(all))
	measured, total := goTimesByName()
	for i := range all {
		sum := &sums[i]
		*sum = TimesSum{Times: timesOf(&all[i].Times), Name: all[i].Name, Others: all[i].Others}
		if by == ByFunction {
			sum.Function = functionText(all[i].Function)
			if sum.Function == "" && !sum.Others {
				sum.Turns += total.turns // the hubs' flows, which are in this sum, ran meanwhile
				sum.Wait.Other = max(0, sum.Wait.Other-total.run)
			}
		} else if !sum.Others {
			sum.add(measured[sum.Name])
			if sum.Name == nameOfHub {
				sum.Run = max(0, sum.Run-total.run)
			}
		}
	}
	slices.SortStableFunc(sums, func(a, b TimesSum) int { return cmp.Compare(b.Run, a.Run) })
	return sums, nil
}

func functionText(address uintptr) string {
	if address == 0 {
		return ""
	}
	return cmp.Or(raw.Symbol(*(*unsafe.Pointer)(unsafe.Pointer(&address))), ID(address).String())
}

// Returns the times that Go has measured, by the names of fibers, and their sum.
func goTimesByName() (map[string]goTimes, goTimes) {
	sums := map[string]goTimes{}
	var total goTimes
	add := func(name string, times goTimes) {
		sum := sums[name]
		sums[name] = goTimes{sum.turns + times.turns, sum.run + times.run}
		total = goTimes{total.turns + times.turns, total.run + times.run}
	}
	accountings.Lock()
	defer accountings.Unlock()
	for name, times := range accountings.ended {
		add(name, times)
	}
	for _, f := range fibersWithStacks() {
		if times, kept := f.metered(); !kept {
			add(f.Name(), times)
		}
	}
	return sums, total
}

// Gives a fiber its turn, and measures it.
func (h *hub) meteredTurn(f *Fiber, number uint32) {
	m := f.meter.Load()
	if m == nil {
		m = new(meter)
		f.meter.Store(m)
	}
	begun := time.Now()
	f.resume()
	run := time.Since(begun)
	m.mu.Lock()
	if m.number != number {
		m.number, m.goTimes = number, goTimes{}
	}
	m.turns++
	m.run += run
	m.mu.Unlock()
}

// Returns what was measured during the present accounting, and whether accountings.ended has it.
func (f *Fiber) metered() (times goTimes, kept bool) {
	m := f.meter.Load()
	if m == nil {
		return goTimes{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.number != accounting.Load() {
		return goTimes{}, false
	}
	return m.goTimes, m.kept
}

// Keeps the times of a fiber that ends, until accounting is turned off.
func (f *Fiber) keepTimes() {
	accountings.Lock()
	defer accountings.Unlock()
	times, _ := f.metered()
	if times.turns == 0 || accountings.ended == nil {
		return
	}
	name := f.Name()
	sum := accountings.ended[name]
	accountings.ended[name] = goTimes{sum.turns + times.turns, sum.run + times.run}
	m := f.meter.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = true
}
