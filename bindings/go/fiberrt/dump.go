// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// DumpFlags say what [WriteDump] and [ReadDump] tell, and how.
type DumpFlags uint

const (
	// DumpFrames adds the frames of each fiber: those of Go code, and those of C code with the names of the functions.
	DumpFrames DumpFlags = raw.DumpFrames

	// DumpGrouped makes one entry of all fibers that have equal states and equal frames, the most frequent entry first.
	DumpGrouped DumpFlags = raw.DumpGrouped

	// DumpJSON is for WriteDump: it writes one JSON object, and a newline.
	DumpJSON DumpFlags = raw.DumpJSON
)

// DumpReport is a dump of the whole process. In JSON it has the form that docs/debugging.md describes.
type DumpReport struct {
	Version     string        `json:"fiberrt"` // of the library
	PID         int           `json:"pid"`
	Now         time.Duration `json:"now_ns"` // by the library's clock, fiber_now
	Cords       []CordInfo    `json:"cords"`
	Fibers      []FiberInfo   `json:"fibers,omitempty"` // without DumpGrouped
	Groups      []FiberGroup  `json:"groups,omitempty"` // with DumpGrouped
	Deadlocks   [][]ID        `json:"deadlocks"`        // each fiber waits for the next one, the last one for the first
	WaitCircles []WaitCircle  `json:"wait_circles"`     // circles that may end
	Incomplete  []string      `json:"incomplete"`       // what the dump lacks because there was no memory, in sentences
}

// CordInfo is a cord: a thread that runs fibers. Each [Run] has one, and each [Cord].
type CordInfo struct {
	ID      ID     `json:"id"`
	Name    string `json:"name"`
	Thread  int    `json:"thread"` // Linux's number
	Ended   bool   `json:"ended"`
	Closing bool   `json:"closing"`

	Switches       uint64 `json:"switches"`
	InstantResumes uint64 `json:"instant_resumes"` // a fiber gave way and was itself the next
	Polls          uint64 `json:"polls"`           // looks for I/O and timers
	BlockingPolls  uint64 `json:"blocking_polls"`  // polls that put the thread to sleep
	Ops            uint64 `json:"ops"`             // operations given to the kernel
	OpsInFlight    uint64 `json:"ops_in_flight"`   // operations that have not ended
	Fibers         uint64 `json:"fibers"`          // now
	Stacks         uint64 `json:"stacks"`          // of C code, in use
	StacksFree     uint64 `json:"stacks_free"`
	StackBytes     uint64 `json:"stack_bytes"` // of address space

	// With accounting. Run, Poll and Sleep add up to Elapsed.
	Elapsed time.Duration `json:"elapsed_ns,omitempty"`
	Run     time.Duration `json:"run_ns,omitempty"` // in fibers
	Poll    time.Duration `json:"poll_ns,omitempty"`
	Sleep   time.Duration `json:"sleep_ns,omitempty"`
	Slice   *Spread       `json:"slice,omitempty"` // how long a fiber has the thread; all fibers of a Run count as one
	Lag     *Spread       `json:"lag,omitempty"`   // from the end of a poll to the next, in which completions go unnoticed
	Polling *Spread       `json:"poll,omitempty"`  // how long polls take, without sleeps
}

// Spread says how durations spread. Each duration is too long by at most a sixteenth.
type Spread struct {
	Count uint64        `json:"count"`
	P50   time.Duration `json:"p50_ns"` // half of them are not longer
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Most  time.Duration `json:"most_ns"` // the longest
}

// WaitCircle is a circle of fibers that wait for each other, and that a deadline or another fiber may end.
type WaitCircle struct {
	Fibers []ID           `json:"fibers"`
	Left   *time.Duration `json:"left_ns"` // until the first deadline in the circle; nil: there is none
}

// Dump writes a report for debugging, as text for people. Anywhere. The report has
//   - the output of fiber_dump: the library's version and backend, and every cord and fiber of the process with its
//     name, its state and what it waits for;
//   - the fibers that wait in [Recv] or [Send] on a channel at whose other end no fiber of their [Run] waits;
//   - the stacks of the coroutines that run Go fibers.
func Dump(w io.Writer) error { return writeText(w, "Dump", 0, stacks()) }

// WriteDump writes a dump in the form that flags ask for; with flags 0 it is that of [Dump] without stacks. Anywhere.
// Since 0.1.
//
// The error is that of w; that of [os.Pipe]; or an [Error]: [syscall.EINVAL] if flags has an unknown bit;
// [syscall.ENOMEM]. A part of the dump may have been written.
func WriteDump(w io.Writer, flags DumpFlags) error {
	if flags&(DumpGrouped|DumpJSON) == 0 {
		var of []byte
		if flags&DumpFrames != 0 {
			of = stacks()
		}
		return writeText(w, "WriteDump", flags, of)
	}
	report, err := readDump("WriteDump", flags&^DumpJSON)
	if err != nil {
		return err
	}
	if flags&DumpJSON != 0 {
		return json.NewEncoder(w).Encode(report)
	}
	return report.writeGroups(w, flags&DumpFrames != 0)
}

// ReadDump returns a dump of the whole process. Anywhere. The frames of one fiber are of one moment, of different
// fibers of different moments. With [DumpFrames], Go stops all goroutines for a moment to read their stacks. Since 0.1.
//
// The error is that of [os.Pipe]; or an [Error]: [syscall.EINVAL] if flags has another bit than DumpFrames and
// DumpGrouped; [syscall.ENOMEM].
func ReadDump(flags DumpFlags) (*DumpReport, error) {
	if flags&DumpJSON != 0 {
		return nil, failure("ReadDump", -int64(syscall.EINVAL))
	}
	return readDump("ReadDump", flags)
}

func readDump(call string, flags DumpFlags) (*DumpReport, error) {
	if flags&^(DumpFrames|DumpGrouped) != 0 {
		return nil, failure(call, -int64(syscall.EINVAL))
	}
	// Groups are made here: the library does not see the frames of Go.
	frames := flags & DumpFrames
	if flags&DumpGrouped != 0 {
		frames = DumpFrames
	}
	running := fibersWithStacks()
	var text bytes.Buffer
	if err := writeOf(&text, call, func(fd int) int { return raw.DumpFd(fd, uint(frames|DumpJSON)) }); err != nil {
		return nil, err
	}
	report := new(DumpReport)
	if err := json.Unmarshal(text.Bytes(), report); err != nil {
		return nil, fmt.Errorf("fiberrt: %s: the library's dump: %w", call, err)
	}
	if frames != 0 {
		running.readFrames(stacks())
	}
	for i := range report.Fibers {
		running.complete(&report.Fibers[i])
	}
	report.nameCords()
	if flags&DumpGrouped != 0 {
		report.Groups = groupsOf(report.Fibers)
		report.Fibers = nil
	}
	return report, nil
}

// Names a cord that has no name as its main flow: "fiberrt.Run", or as StartCord says.
func (report *DumpReport) nameCords() {
	names := map[ID]string{}
	for i := range report.Fibers {
		if f := &report.Fibers[i]; f.MainFlow {
			names[f.Cord] = f.Name
		}
	}
	for i := range report.Cords {
		if cord := &report.Cords[i]; cord.Name == "" {
			cord.Name = names[cord.ID]
		}
	}
}

func writeText(w io.Writer, call string, flags DumpFlags, stacks []byte) error {
	running := fibersWithStacks()
	if err := writeOf(w, call, func(fd int) int { return raw.DumpFd(fd, uint(flags)) }); err != nil {
		return err
	}
	if _, err := io.WriteString(w, dumpChanWaits()); err != nil {
		return err
	}
	for _, stack := range running.texts(stacks) {
		if _, err := io.WriteString(w, stack); err != nil {
			return err
		}
	}
	return nil
}

// Has a call of the library write to a descriptor, and copies the text to w.
func writeOf(w io.Writer, call string, write func(fd int) int) error {
	r, pipe, err := os.Pipe()
	if err != nil {
		return err
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		io.Copy(io.Discard, r) // the library must not block for ever
		read <- err
	}()
	result := write(int(pipe.Fd()))
	pipe.Close()
	err = <-read
	r.Close()
	if result < 0 {
		return failure(call, int64(result))
	}
	return err
}
