// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// The stacks of Go fibers. Go's runtime tells the stacks of all goroutines; a fiber's is found by the address of the
// worker, which is an argument of the coroutine's outermost function.

package fiberrt

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Runs a worker. Go passes an array of more than one element on the stack, so the stack's text has its true value.
//
//go:noinline
func runWorker(worker [2]uintptr, serve func()) uintptr {
	serve()
	return worker[0]
}

// Returns the stacks of all goroutines, or the first 64 MiB of them.
func stacks() []byte {
	for size := 1 << 16; ; size *= 4 {
		text := make([]byte, size)
		if n := runtime.Stack(text, true); n < size || size >= 64<<20 {
			return text[:n]
		}
	}
}

// The fibers that have a worker, and so a stack of Go's.
type stackFibers map[raw.Fiber]*stackFiber

type stackFiber struct {
	*Fiber
	worker *worker
	frames []GoFrame
}

func fibersWithStacks() stackFibers {
	fibers := stackFibers{}
	workers.Range(func(_, value any) bool {
		w := value.(*worker)
		if f := w.fiber.Load(); f != nil {
			fibers[f.handle] = &stackFiber{Fiber: f, worker: w}
		}
		return true
	})
	return fibers
}

// Returns the fiber to which a goroutine's stack belongs, or nil.
func (fibers stackFibers) byWorker() map[uintptr]*stackFiber {
	by := make(map[uintptr]*stackFiber, len(fibers))
	for _, f := range fibers {
		by[uintptr(unsafe.Pointer(f.worker))] = f
	}
	return by
}

var workerOf = regexp.MustCompile(`fiberrt\.runWorker\(\{0x([0-9a-f]+),`)

// Calls visit with each fiber and the text of the stack. The fiber is nil if the coroutine is idle, or has had another
// fiber meanwhile.
func (fibers stackFibers) each(stacks []byte, visit func(f *stackFiber, head, stack []byte)) {
	by := fibers.byWorker()
	for _, stack := range bytes.Split(stacks, []byte("\n\n")) {
		found := workerOf.FindSubmatch(stack)
		if found == nil {
			continue
		}
		address, _ := strconv.ParseUint(string(found[1]), 16, 64)
		f := by[uintptr(address)]
		if f != nil && f.worker.fiber.Load() != f.Fiber {
			f = nil
		}
		head, rest, _ := bytes.Cut(stack, []byte("\n"))
		visit(f, head, rest)
	}
}

// Returns the texts of the coroutines' stacks, each with its fiber.
func (fibers stackFibers) texts(stacks []byte) (texts []string) {
	fibers.each(stacks, func(f *stackFiber, head, stack []byte) {
		of := "an idle coroutine"
		if f != nil {
			of = fmt.Sprintf("the stack of %q, %s", f.Name(), f.ID())
		}
		texts = append(texts, fmt.Sprintf("%s, %s\n%s\n\n", of, head, stack))
	})
	return texts
}

func (fibers stackFibers) readFrames(stacks []byte) {
	fibers.each(stacks, func(f *stackFiber, _, stack []byte) {
		if f != nil {
			f.frames = framesOf(string(stack))
		}
	})
}

// Adds to a dumped fiber what only Go knows.
func (fibers stackFibers) complete(info *FiberInfo) {
	for i := range info.Frames {
		if frame := &info.Frames[i]; frame.Symbol == "" && frame.PC > 0 {
			frame.Symbol = fullName(uintptr(frame.PC) - 1) // Go's call of C; its return address may be of another function
		}
	}
	f := fibers[raw.Fiber(info.ID)]
	if f == nil {
		return
	}
	info.FunctionName = fullName(f.entry)
	info.GoFrames = f.frames
	if own, _ := f.metered(); own.turns > 0 && info.Waits != nil {
		other := info.Waits[waitKinds[raw.WaitOther]]
		run := min(own.run, other) // as Times.add
		info.Turns += own.turns
		info.Run += own.run
		info.Waited -= run
		if other -= run; other > 0 {
			info.Waits[waitKinds[raw.WaitOther]] = other
		} else {
			delete(info.Waits, waitKinds[raw.WaitOther])
		}
	}
}

var thisPackage = reflect.TypeFor[Fiber]().PkgPath() + "."

// Returns the frames in a goroutine's stack, from the call of this package in which the fiber waits to its function.
func framesOf(stack string) (frames []GoFrame) {
	lines := strings.Split(stack, "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		end := strings.LastIndexByte(lines[i], '(')
		file, line, ok := strings.Cut(strings.TrimPrefix(lines[i+1], "\t"), ".go:")
		if end < 0 || !ok {
			break
		}
		function := lines[i][:end]
		if function == thisPackage+"(*Fiber).call" {
			break
		}
		if len(frames) == 0 && isInner(function) || function == thisPackage+"(*Group).Go.func1" {
			continue
		}
		line, _, _ = strings.Cut(line, " ")
		number, _ := strconv.Atoi(line)
		frames = append(frames, GoFrame{Function: function, File: file + ".go", Line: number})
	}
	return frames
}

// Tells whether a function belongs to the inside of a wait: to Go's runtime, or to this package and not exported.
func isInner(function string) bool {
	name, ours := strings.CutPrefix(function, thisPackage)
	if !ours {
		return strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "iter.") ||
			strings.HasPrefix(function, "internal/")
	}
	if _, method, ok := strings.Cut(name, ")."); ok {
		name = method
	}
	return name == "" || name[0] < 'A' || name[0] > 'Z'
}
