// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"fmt"
	"strconv"
	"time"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// ID is the number of a fiber, a cord or a scope, unique in the process for ever; or an address. 0: none.
type ID uint64

// String returns the number as dumps of the library have it, such as 0x0100004100000001.
func (id ID) String() string { return fmt.Sprintf("0x%016x", uint64(id)) }

// MarshalText implements encoding.TextMarshaler: many readers of JSON round large numbers.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(text []byte) error {
	number, err := strconv.ParseUint(string(text), 0, 64)
	*id = ID(number)
	return err
}

// FiberInfo is what the library knows of a fiber, of Go or of C, at one moment. In JSON its members have the names of
// the library's own dump (docs/debugging.md), and go_frames is added.
type FiberInfo struct {
	ID        ID     `json:"id"`
	Name      string `json:"name"`
	Cord      ID     `json:"cord"`
	State     string `json:"state"`     // "new", "runnable", "running", "waiting" or "dead"; "running" also in Go's hands
	Still     bool   `json:"still"`     // it did not run while the library looked at it; false: its wait is not known
	MainFlow  bool   `json:"main_flow"` // of a thread: of a Run, the flow that runs its fibers
	Cancelled bool   `json:"cancelled"`
	Detached  bool   `json:"detached"` // true of every fiber of a Run

	Wait       string         `json:"wait"`         // why it waits: "sleeps", "waits in Await for a goroutine"; else ""
	WaitFd     int            `json:"wait_fd"`      // the descriptor that it waits for, or -1
	WaitObject ID             `json:"wait_object"`  // a fiber, cord or scope, or the address of a channel or a lock
	WaitFiber  ID             `json:"wait_fiber"`   // the only fiber that can end the wait
	WaitLeft   *time.Duration `json:"wait_left_ns"` // until a deadline ends the wait; nil: there is none

	Parent       ID     `json:"parent"`       // of a fiber of C: the fiber whose scope it is in
	ParentScope  ID     `json:"parent_scope"` // the scope
	Function     ID     `json:"function"`     // the address of the function that it runs; of a fiber of Go 0
	FunctionName string `json:"function_name"`

	CreatedAt       ID     `json:"created_at,omitempty"` // with fiber_record_creation
	CreatedAtName   string `json:"created_at_name,omitempty"`
	CreatedAtOffset uint64 `json:"created_at_offset,omitempty"`
	CreatedBy       ID     `json:"created_by,omitempty"`

	StackSize    uint64 `json:"stack_size"` // in bytes; 0 of a fiber of Go, which has a stack of Go's
	StackUsed    uint64 `json:"stack_used"`
	StackTouched uint64 `json:"stack_touched"`

	// With accounting, in a dump: see Times.
	Turns    uint64                   `json:"turns,omitempty"`
	Run      time.Duration            `json:"run_ns,omitempty"`
	Runnable time.Duration            `json:"runnable_ns,omitempty"`
	Waited   time.Duration            `json:"wait_ns,omitempty"`
	Waits    map[string]time.Duration `json:"waits_ns,omitempty"`

	// With DumpFrames, the innermost first. GoFrames begin with the call of this package in which the fiber waits.
	Frames         []Frame   `json:"frames,omitempty"`
	FramesComplete bool      `json:"frames_complete,omitempty"`
	FramesMissing  string    `json:"frames_missing,omitempty"` // why a fiber of C that runs has none
	GoFrames       []GoFrame `json:"go_frames,omitempty"`
}

// Frame is a frame of C code.
type Frame struct {
	PC           ID     `json:"pc"`
	Symbol       string `json:"symbol"` // "": not known
	Offset       uint64 `json:"offset,omitempty"`
	Object       string `json:"object"` // the file with the code
	ObjectOffset uint64 `json:"object_offset,omitempty"`
}

// GoFrame is a frame of Go code.
type GoFrame struct {
	Function string `json:"function"` // its full name, as in a panic
	File     string `json:"file"`
	Line     int    `json:"line"`
}

// ID returns the fiber's number, as dumps have it; 0 if the fiber could not be made. Anywhere.
func (f *Fiber) ID() ID { return ID(f.handle) }

// Info returns what the library knows of the fiber now. Anywhere; a fiber that asks about another one of the same Run
// sees it at rest. Since 0.1.
//
// The error is an [Error]: [syscall.ESRCH] if the fiber has ended; [syscall.EINVAL] if it could not be made.
func (f *Fiber) Info() (FiberInfo, error) {
	in, result := raw.ReadInfo(f.handle)
	if result < 0 {
		return FiberInfo{}, failure("Info", int64(result))
	}
	info := FiberInfo{
		ID: ID(in.ID), Name: in.Name, Cord: ID(in.Cord), State: stateNames[in.State], Still: in.Still, MainFlow: in.MainFlow,
		Cancelled: in.Cancelled, Detached: in.Detached, Wait: in.Wait, WaitFd: in.WaitFd, WaitObject: ID(in.WaitObject),
		WaitFiber: ID(in.WaitFiber), Parent: ID(in.Parent), ParentScope: ID(in.ParentScope), Function: ID(in.Function),
		FunctionName: fullName(f.entry), CreatedAt: ID(in.CreatedAt), CreatedBy: ID(in.CreatedBy), StackSize: in.StackSize,
		StackUsed: in.StackUsed, StackTouched: in.StackTouched,
	}
	if in.WaitDeadlineNs != raw.Forever {
		left := time.Duration(max(0, in.WaitDeadlineNs-raw.Now()))
		info.WaitLeft = &left
	}
	return info, nil
}

var stateNames = map[int]string{
	raw.StateNew: "new", raw.StateRunnable: "runnable", raw.StateRunning: "running", raw.StateWaiting: "waiting",
	raw.StateDead: "dead",
}
