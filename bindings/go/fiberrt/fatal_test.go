// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"example.com/fiberrt/bindings/go/internal/ctest"
)

func TestCallback(t *testing.T) {
	calls := 0
	callback := NewCallback(func() { calls++ })
	defer callback.Release()
	ctest.Call(callback.Func(), callback.Arg())
	run(t, func(f *Fiber) {
		ctest.Call(callback.Func(), callback.Arg())
		reschedules := NewCallback(func() {
			calls++
			panics(t, "Reschedule inside a callback from C", func() { f.Reschedule() })
			panics(t, "Sleep inside a callback from C", func() { f.Sleep(1) })
		})
		defer reschedules.Release()
		ctest.Call(reschedules.Func(), reschedules.Arg())
		if err := f.Reschedule(); err != nil {
			t.Error("afterwards", err)
		}
	})
	if calls != 3 {
		t.Error(calls)
	}
}

// Mistakes that end the program: each runs in a separate process.
func TestFatal(t *testing.T) {
	cases := map[string]struct {
		run  func()
		says string // "": only the crash is promised, not a message
	}{
		"callback on a fiber of C": {func() {
			callback := NewCallback(func() { println("Go ran") })
			ctest.CallOnFiber(callback.Func(), callback.Arg())
		}, "a fiber of C has called Go"},
		"reschedule in a callback": {func() {
			Run(context.Background(), func(f *Fiber) {
				callback := NewCallback(func() { f.Reschedule() })
				ctest.Call(callback.Func(), callback.Arg())
			})
		}, "Reschedule inside a callback from C"},
		"reschedule by another goroutine": {func() {
			Run(context.Background(), func(f *Fiber) {
				go f.Reschedule()
				Await(f, func(context.Context) (int, error) { select {} })
			})
		}, "a goroutine that is not this fiber"},
		"panic that no joiner receives": {func() {
			Run(context.Background(), func(f *Fiber) { thisPanics("boom") })
		}, "thisPanics"},
		"reschedule in an exported function": {func() {
			Run(context.Background(), func(f *Fiber) {
				ctest.Exported = func() { f.Reschedule() }
				ctest.CallExported()
			})
		}, "coro"},
		"exported function on a fiber": {func() {
			ctest.Exported = func() { deep(100); panic("Go ran on a fiber's stack") }
			ctest.CallExportedOnFiber()
		}, ""},
		"an overflow that is reported":     {func() { ctest.OverflowReported() }, "has overflowed its stack of 256 KiB"},
		"what Go does about it afterwards": {func() { ctest.OverflowReported() }, "SIGSEGV: segmentation violation"},
	}
	if c, ok := cases[os.Getenv("FIBERRT_GO_FATAL")]; ok {
		c.run()
		os.Exit(0)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			command := exec.Command(os.Args[0], "-test.run=^TestFatal$", "-test.timeout=60s")
			command.Env = append(os.Environ(), "FIBERRT_GO_FATAL="+name)
			text, err := command.CombinedOutput()
			if err == nil || !strings.Contains(string(text), c.says) {
				t.Errorf("%v: %.2000s", err, text)
			}
		})
	}
}
