// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"io"
	"math"
	"os"
	"strings"
	"syscall"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// TraceOptions say where [StartTrace] writes. Exactly one of Path and File must be set.
type TraceOptions struct {
	Path string   // the file, which is created or emptied; %p becomes the number of the process, and %% a single %
	File *os.File // a file, pipe or socket open for writing; the trace uses a duplicate

	// RingEvents says for how many events each cord has memory, of 32 bytes each; from 64 to 16,777,216. 0: 65,536.
	RingEvents int
}

// TraceStats are the figures of a trace.
type TraceStats struct {
	Events  uint64 // written so far
	Dropped uint64 // events that were lost, because a cord's memory for events was full, or it had none
	Bytes   uint64 // written so far
	Err     error  // the error of the write that has ended the trace, or nil
	Running bool   // the trace is not stopped yet
}

// StartTrace starts a trace of the process, which shows when each fiber waited and was runnable, why it waited, and the
// slices of [Fiber.TraceBegin]. Perfetto reads it: see docs/tracing.md. There is one trace at a time. Cords of other
// threads follow at their next poll. Anywhere. Since 0.1.
//
// The error is an [Error]: [syscall.EINVAL] if not exactly one of Path and File is set, or RingEvents is out of range;
// [syscall.EBUSY] if there is a trace already; [syscall.EBADF] if File is closed; [syscall.EAGAIN], [syscall.ENOMEM],
// or an error of open(2). In a simulation it is [syscall.ENOTSUP].
func StartTrace(options TraceOptions) error {
	result := inSimulation()
	switch {
	case result < 0:
	case (options.Path == "") == (options.File == nil), strings.Contains(options.Path, "\x00"),
		options.RingEvents < 0, int64(options.RingEvents) > math.MaxUint32:
		result = -int(syscall.EINVAL)
	case options.File != nil:
		result = traceTo(options.File, uint32(options.RingEvents))
	default:
		result = raw.TraceStart(options.Path, -1, uint32(options.RingEvents))
	}
	if result < 0 {
		return failure("StartTrace", int64(result))
	}
	return nil
}

func traceTo(file *os.File, ringEvents uint32) int {
	result := -int(syscall.EBADF)
	if conn, err := file.SyscallConn(); err == nil {
		conn.Control(func(fd uintptr) { result = raw.TraceStart("", int(fd), ringEvents) })
	}
	return result
}

// StopTrace stops the trace, and completes the file. It blocks until all is written, at most two seconds if a pipe's
// reader does not read; so a fiber should call it in [Await]. Anywhere. Since 0.1.
//
// The error is an [Error]: [syscall.ESRCH] if there is no trace; [syscall.ETIMEDOUT] if the reader did not read; or
// that of the write which has ended the trace early.
func StopTrace() error { return done("StopTrace", raw.TraceStop()) }

// ReadTraceStats returns the figures of the trace, or of the last one. Anywhere. Since 0.1.
func ReadTraceStats() TraceStats {
	in := raw.ReadTraceStats()
	stats := TraceStats{Events: in.Events, Dropped: in.Dropped, Bytes: in.Bytes, Running: in.Running}
	if in.Error != 0 {
		stats.Err = failure("StartTrace", int64(in.Error))
	}
	return stats
}

// TraceBegin begins a slice of the fiber in the trace, which [Fiber.TraceEnd] ends. Slices may lie within each other,
// and waits within them; at the fiber's end they all end. The trace has the first 255 bytes of name, up to a zero byte.
// While there is no trace, nothing happens. Since 0.1.
//
//	f.TraceBegin("request")
//	defer f.TraceEnd()
//
// The error is [ErrStopped], or nil.
func (f *Fiber) TraceBegin(name string) error {
	f.check("TraceBegin")
	return f.traced("TraceBegin", raw.TraceBegin(f.handle, name))
}

// TraceEnd ends the slice that the fiber began last and has not ended yet. If none is open, nothing happens. Since 0.1.
//
// The error is [ErrStopped], or nil.
func (f *Fiber) TraceEnd() error {
	f.check("TraceEnd")
	return f.traced("TraceEnd", raw.TraceEnd(f.handle))
}

func (f *Fiber) traced(call string, result int) error {
	if result < 0 {
		return f.why(call, int64(result))
	}
	return nil
}

// WriteMetrics writes the figures of all cords, fibers and pools as OpenMetrics text, the format of Prometheus.
// docs/top.md lists the metrics. Anywhere. Since 0.1.
//
// The error is that of w; that of [os.Pipe]; or an [Error], [syscall.ENOMEM]. A part may have been written; a complete
// text ends with "# EOF".
func WriteMetrics(w io.Writer) error { return writeOf(w, "WriteMetrics", raw.MetricsFd) }

// StartAgent starts a thread that answers the program fiberrt-top at a unix socket, also while all fibers hang. path is
// the socket's file, or an existing folder, in which the file is PID.sock. Only processes of the same user get answers.
// FIBERRT_TOP in the environment starts it at the first [Run]. Anywhere. Since 0.1.
//
// The error is an [Error]: [syscall.EINVAL] if path is empty or has a zero byte; [syscall.EBUSY] if there is an agent
// already; [syscall.ENAMETOOLONG]; [syscall.EADDRINUSE]; [syscall.EEXIST] if path is another kind of file;
// [syscall.EAGAIN]; [syscall.ENOMEM]; [syscall.ENOTSUP] in a simulation; or an error of socket(2) or bind(2).
func StartAgent(path string) error {
	if strings.Contains(path, "\x00") {
		return done("StartAgent", -int(syscall.EINVAL))
	}
	return done("StartAgent", raw.AgentStart(path))
}

// StopAgent stops the agent, and removes its file. Anywhere. Since 0.1.
//
// The error is an [Error]: [syscall.ESRCH] if there is none; [syscall.EBUSY] if another thread is stopping it.
func StopAgent() error { return done("StopAgent", raw.AgentStop()) }

func done(call string, result int) error {
	if result < 0 {
		return failure(call, int64(result))
	}
	return nil
}
