// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// The names of fibers, and the words in which they tell why they wait. Both are texts in C memory, which dumps of the
// library read at any time.

package fiberrt

import (
	"reflect"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Why a fiber of Go is parked. The fiber's wake-up comes from Go, so the library itself knows no reason.
var (
	inAwait     = raw.NewText("waits in Await for a goroutine")
	inJoin      = raw.NewText("waits in Join for fiber")
	inWaitOn    = raw.NewText("waits in WaitOn for a C function")
	inGroupWait = raw.NewText("waits in Group.Wait for the group's fibers")
	inService   = raw.NewText("waits for requests to its Run")
	inChan      = [...]raw.Text{
		receives: raw.NewText("waits in Recv on a Go channel"),
		sends:    raw.NewText("waits in Send on a Go channel"),
	}
	inNilChan = [...]raw.Text{
		receives: raw.NewText("waits in Recv on a nil channel"),
		sends:    raw.NewText("waits in Send on a nil channel"),
	}
)

var (
	nameOfHub     = "fiberrt.Run"
	nameOfService = raw.NewText("fiberrt.Run: service")
)

// The names of functions by their addresses. There is one for each function, for ever: the library reads them without a
// lock of Go's.
var functionNames struct {
	sync.Mutex
	texts map[uintptr]raw.Text
}

// Returns the text that make returns for a function, which is called once.
func functionName(function uintptr, make func() string) raw.Text {
	names := &functionNames
	names.Lock()
	defer names.Unlock()
	text, known := names.texts[function]
	if !known {
		text = raw.NewText(make())
		if names.texts == nil {
			names.texts = map[uintptr]raw.Text{}
		}
		names.texts[function] = text
	}
	return text
}

// Returns the address of a Go function's code, or 0 for nil.
func entryOf[F any](fn F) uintptr { return reflect.ValueOf(fn).Pointer() }

// Returns a Go function's full name, as panics print it, or "".
func fullName(entry uintptr) string {
	if function := runtime.FuncForPC(entry); function != nil {
		return function.Name()
	}
	return ""
}

// Returns the name of the fibers that run a Go function: its name without the path of the package. Of a long name the
// end is kept, which tells functions of one package apart.
func fiberName(entry uintptr) string {
	name := strings.TrimSuffix(fullName(entry), "-fm") // of a method value
	name = name[strings.LastIndexByte(name, '/')+1:]
	if most := raw.NameMax - 1; len(name) > most {
		name = "..." + name[len(name)-most+len("..."):]
	}
	return name
}

// Returns the name of fibers that run a Go function. The hub remembers it, so it takes no lock for known functions. Many
// fibers in a row run the same one.
func (h *hub) nameOf(entry uintptr) raw.Text {
	if entry == h.nameLast.entry {
		return h.nameLast.text
	}
	text, known := h.names[entry]
	if !known {
		text = functionName(entry, func() string { return fiberName(entry) })
		h.names[entry] = text
	}
	h.nameLast.entry, h.nameLast.text = entry, text
	return text
}

// Returns the name of fibers that run a C function.
func nameOfC(function unsafe.Pointer) raw.Text {
	return functionName(uintptr(function), func() string {
		if name := raw.Symbol(function); name != "" {
			return name
		}
		return "C function without a symbol"
	})
}

// SetName sets the name that dumps, traces and sums of times show, instead of the name of the fiber's function. Up to
// 31 bytes are kept, and none after a zero byte. An empty name removes the name.
func (f *Fiber) SetName(name string) {
	f.check("SetName")
	name, _, _ = strings.Cut(name, "\x00")
	f.mu.Lock()
	kept := name[:min(len(name), raw.NameMax-1)]
	f.name = &kept
	f.mu.Unlock()
	raw.SetName(f.handle, name)
}

// Name returns the fiber's name: that of [Fiber.SetName] or, before, the name of the fiber's function without the
// package's path. A fiber that has ended keeps its name. Anywhere.
func (f *Fiber) Name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.name != nil {
		return *f.name
	}
	return fiberName(f.entry)
}
