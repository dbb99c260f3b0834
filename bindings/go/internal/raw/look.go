// SPDX-License-Identifier: MIT OR Apache-2.0

package raw

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fiberrt.h>
#include <stdlib.h>
#include <string.h>

static int raw_info(uint64_t fiber, fiber_info_t *out) { return fiber_info((fiber_t){fiber}, out, sizeof *out); }

static int raw_times(uint64_t fiber, fiber_times_t *out) { return fiber_times((fiber_t){fiber}, out, sizeof *out); }

// The exported name of a C function in out, without its end if it is too long; empty if it has none.
static void raw_symbol(void *function, char *out, size_t size) {
    Dl_info found;
    if (!dladdr(function, &found) || !found.dli_sname || found.dli_saddr != function) return;
    strncpy(out, found.dli_sname, size - 1);
}

// The sums of fiber_times_each, in memory that the caller frees. They are collected in C: Go would have to leave the
// library's function for each.
struct raw_sums {
    fiber_times_sum_t *at;
    size_t count, room;
};

static int raw_add_sum(const fiber_times_sum_t *sum, void *arg) {
    struct raw_sums *sums = arg;
    if (sums->count == sums->room) {
        size_t room = sums->room ? 2 * sums->room : 64;
        fiber_times_sum_t *grown = realloc(sums->at, room * sizeof *grown);
        if (!grown) return -12; // -ENOMEM
        sums->at = grown;
        sums->room = room;
    }
    sums->at[sums->count++] = *sum;
    return 0;
}

static int raw_sums_read(struct raw_sums *sums, int by) { return fiber_times_each(by, raw_add_sum, sums); }

static int raw_trace_start(const char *path, int fd, uint32_t ring_events) {
    fiber_trace_t options;
    memset(&options, 0, sizeof options);
    options.path = path;
    options.fd = fd;
    options.ring_events = ring_events;
    return fiber_trace_start(&options, sizeof options);
}

static int raw_trace_stats(fiber_trace_stats_t *out) { return fiber_trace_stats(out, sizeof *out); }

// Calls about the trace in the name of a hosted fiber that is handed out to this thread.
static int raw_trace_begin(uint64_t fiber, const char *name) {
    int error = fiber_hosted_enter((fiber_t){fiber});
    if (error) return error;
    error = fiber_trace_begin(name);
    fiber_hosted_leave();
    return error;
}

static int raw_trace_end(uint64_t fiber) {
    int error = fiber_hosted_enter((fiber_t){fiber});
    if (error) return error;
    error = fiber_trace_end();
    fiber_hosted_leave();
    return error;
}
*/
import "C"

import "unsafe"

// Text is a text in C memory that ends with a zero, or nil.
type Text unsafe.Pointer

// NewText makes a text that lives as long as the process. A zero byte in s ends it.
func NewText(s string) Text { return Text(C.CString(s)) }

// Symbol returns the name of an exported C function, or "".
func Symbol(function unsafe.Pointer) string {
	var name [128]C.char
	C.raw_symbol(function, &name[0], C.size_t(len(name)))
	return C.GoString(&name[0])
}

// Info has the members of fiber_info_t.
type Info struct {
	ID, Cord, ParentScope, Parent                uint64
	StackSize, StackUsed, StackTouched           uint64
	WaitObject, WaitFiber                        uint64
	Function, CreatedAt, CreatedBy               uint64
	WaitDeadlineNs                               int64
	State, WaitFd                                int
	Cancelled, Detached, Permit, MainFlow, Still bool
	Name, Wait                                   string
}

// ReadInfo is fiber_info.
func ReadInfo(fiber Fiber) (Info, int) {
	var in C.fiber_info_t
	if result := C.raw_info(C.uint64_t(fiber), &in); result < 0 {
		return Info{}, int(result)
	}
	return Info{
		ID: uint64(in.id), Cord: uint64(in.cord), ParentScope: uint64(in.parent_scope), Parent: uint64(in.parent),
		StackSize: uint64(in.stack_size), StackUsed: uint64(in.stack_used), StackTouched: uint64(in.stack_touched),
		WaitObject: uint64(in.wait_object), WaitFiber: uint64(in.wait_fiber), Function: uint64(in.function),
		CreatedAt: uint64(in.created_at), CreatedBy: uint64(in.created_by), WaitDeadlineNs: int64(in.wait_deadline_ns),
		State: int(in.state), WaitFd: int(in.wait_fd), Cancelled: in.cancelled != 0, Detached: in.detached != 0,
		Permit: in.permit != 0, MainFlow: in.main_flow != 0, Still: in.still != 0,
		Name: C.GoString(&in.name[0]), Wait: C.GoString(&in.wait[0]),
	}, 0
}

// The states of [Info].
const (
	StateNew      = C.FIBER_NEW
	StateRunnable = C.FIBER_RUNNABLE
	StateRunning  = C.FIBER_RUNNING
	StateWaiting  = C.FIBER_WAITING
	StateDead     = C.FIBER_DEAD
)

// Flags of DumpAs, and the length of names.
const (
	DumpFrames  = C.FIBER_DUMP_FRAMES
	DumpGrouped = C.FIBER_DUMP_GROUPED
	DumpJSON    = C.FIBER_DUMP_JSON
	NameMax     = C.FIBER_NAME_MAX
)

// The kinds of waits in [Times].
const (
	WaitTime     = C.FIBER_WAIT_TIME
	WaitIO       = C.FIBER_WAIT_IO
	WaitLock     = C.FIBER_WAIT_LOCK
	WaitChannel  = C.FIBER_WAIT_CHANNEL
	WaitFiber    = C.FIBER_WAIT_FIBER
	WaitChildren = C.FIBER_WAIT_CHILDREN
	WaitWakeup   = C.FIBER_WAIT_WAKEUP
	WaitOther    = C.FIBER_WAIT_OTHER
	WaitKinds    = C.FIBER_WAIT_KINDS
)

// Arguments of [Sums].
const (
	ByFunction = C.FIBER_BY_FUNCTION
	ByName     = C.FIBER_BY_NAME
	ByScope    = C.FIBER_BY_SCOPE
)

// Times is fiber_times_t, with durations in nanoseconds.
type Times struct {
	Fibers, Turns uint64
	Run, Runnable int64
	Wait          [WaitKinds]int64
}

func timesOf(in *C.fiber_times_t) (out Times) {
	out.Fibers, out.Turns = uint64(in.fibers), uint64(in.turns)
	out.Run, out.Runnable = int64(in.run_ns), int64(in.runnable_ns)
	for i := range out.Wait {
		out.Wait[i] = int64(in.wait_ns[i])
	}
	return out
}

// ReadTimes is fiber_times.
func ReadTimes(fiber Fiber) (Times, int) {
	var in C.fiber_times_t
	if result := C.raw_times(C.uint64_t(fiber), &in); result < 0 {
		return Times{}, int(result)
	}
	return timesOf(&in), 0
}

// Sum is fiber_times_sum_t.
type Sum struct {
	Times    Times
	Function uintptr
	Scope    uint64
	Name     string
	Others   bool
}

// Sums returns the sums of fiber_times_each.
func Sums(by int) ([]Sum, int) {
	var sums C.struct_raw_sums
	defer func() { C.free(unsafe.Pointer(sums.at)) }()
	if result := C.raw_sums_read(&sums, C.int(by)); result < 0 {
		return nil, int(result)
	}
	var out []Sum
	for _, in := range unsafe.Slice(sums.at, int(sums.count)) {
		out = append(out, Sum{
			Times: timesOf(&in.times), Function: uintptr(in.function), Scope: uint64(in.scope),
			Name: C.GoString(&in.name[0]), Others: in.others != 0,
		})
	}
	return out, 0
}

// TraceStart is fiber_trace_start, with a path, or with "" and a descriptor.
func TraceStart(path string, fd int, ringEvents uint32) int {
	var text *C.char
	if path != "" {
		text = C.CString(path)
		defer C.free(unsafe.Pointer(text))
	}
	return int(C.raw_trace_start(text, C.int(fd), C.uint32_t(ringEvents)))
}

// TraceStats is fiber_trace_stats_t.
type TraceStats struct {
	Events, Dropped, Bytes uint64
	Error                  int
	Running                bool
}

// ReadTraceStats is fiber_trace_stats.
func ReadTraceStats() TraceStats {
	var in C.fiber_trace_stats_t
	C.raw_trace_stats(&in)
	return TraceStats{uint64(in.events), uint64(in.dropped), uint64(in.bytes), int(in.error), in.running != 0}
}

// TraceBegin is fiber_trace_begin in the name of a fiber that is handed out to this thread.
func TraceBegin(fiber Fiber, name string) int {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return int(C.raw_trace_begin(C.uint64_t(fiber), text))
}

// TraceEnd is fiber_trace_end in the name of a fiber that is handed out to this thread.
func TraceEnd(fiber Fiber) int { return int(C.raw_trace_end(C.uint64_t(fiber))) }
