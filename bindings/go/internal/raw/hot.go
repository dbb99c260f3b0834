// SPDX-License-Identifier: MIT OR Apache-2.0

// Package raw makes the calls of fiberrt.h available to package fiberrt. The calls of every turn are in this file,
// written by hand. SWIG makes the others from raw.i (raw.go, raw_wrap.c).
//
// The C functions of this file neither call Go nor keep a Go pointer. They are marked as such, which makes the calls
// cheaper.
package raw

/*
#cgo fiberrt_system pkg-config: fiberrt
#cgo !fiberrt_system CPPFLAGS: -I${SRCDIR}/../../clib
#cgo noescape raw_exchange
#cgo nocallback raw_exchange
#cgo noescape raw_spawn
#cgo nocallback raw_spawn
#cgo noescape raw_wakeup
#cgo nocallback raw_wakeup
#cgo noescape raw_interrupt
#cgo nocallback raw_interrupt
#cgo noescape raw_cancel
#cgo nocallback raw_cancel
#include <fiberrt.h>
#include <stdlib.h>

static int raw_exchange(void *ops, int op_count, void *out, int most, int64_t timeout_ns) {
    return fiber_exchange(ops, op_count, out, most, timeout_ns);
}

// Makes a detached hosted fiber for fiber_exchange, with a name unless that is NULL, and wakes it for its first turn.
static int raw_spawn(uint64_t *out, void *attr, uint64_t user, void *name) {
    fiber_t fiber;
    int error = fiber_hosted_new(&fiber, attr, NULL, (void *)(uintptr_t)user);
    if (error < 0) return error;
    *out = fiber.id;
    if (name) fiber_set_name(fiber, name);
    return fiber_wakeup(fiber);
}

static int raw_wakeup(uint64_t fiber) { return fiber_wakeup((fiber_t){fiber}); }
static int raw_interrupt(uint64_t fiber) { return fiber_interrupt((fiber_t){fiber}, NULL); }
static int raw_cancel(uint64_t fiber) { return fiber_cancel((fiber_t){fiber}, NULL); }

static int raw_detached(fiber_attr_t **out) {
    int error = fiber_attr_create(out);
    return error < 0 ? error : fiber_attr_set_detached(*out, 1);
}
*/
import "C"

import (
	"unsafe"

	_ "example.com/fiberrt/bindings/go/clib"
)

// The codes of operations: FIBER_OP_*.
const (
	OpNone       = C.FIBER_OP_NONE
	OpReschedule = C.FIBER_OP_RESCHEDULE
	OpPark       = C.FIBER_OP_YIELD
	OpSleep      = C.FIBER_OP_SLEEP
	OpEnd        = C.FIBER_OP_END
	OpRead       = C.FIBER_OP_READ
	OpWrite      = C.FIBER_OP_WRITE
	OpRecv       = C.FIBER_OP_RECV
	OpSend       = C.FIBER_OP_SEND
	OpAccept     = C.FIBER_OP_ACCEPT
	OpConnect    = C.FIBER_OP_CONNECT
	OpPoll       = C.FIBER_OP_POLL
	OpClose      = C.FIBER_OP_CLOSE
	OpChanSend   = C.FIBER_OP_CHAN_SEND
	OpChanRecv   = C.FIBER_OP_CHAN_RECV
	OpCall       = C.FIBER_OP_CALL
)

// OpTimed is FIBER_OP_TIMED: TimeoutNs bounds the wait.
const OpTimed = C.FIBER_OP_TIMED

// OpReason is FIBER_OP_REASON: of OpPark, Address is a [Text] with the reason, and Target says what it waits for.
const OpReason = C.FIBER_OP_REASON

// ScopeShield is FIBER_SCOPE_SHIELD.
const ScopeShield = C.FIBER_SCOPE_SHIELD

// Forever is FIBER_FOREVER.
const Forever int64 = C.FIBER_FOREVER

// Op is fiber_op_t: an operation record. It must be in memory of [NewOps], never in Go memory.
type Op struct {
	Code      uint32
	Flags     uint32
	Fiber     Fiber
	User      uintptr
	TimeoutNs int64
	Result    int64
	Fd        int32
	Mode      int32
	Address   unsafe.Pointer
	Address2  unsafe.Pointer
	Length    uint64
	Number    int64
	Target    uint64
	Value     uintptr
	Function  uintptr
	_         [37]uint64
}

// Completion is fiber_completion_t: a hosted fiber whose turn it is.
type Completion struct {
	Fiber  Fiber
	User   uintptr // the number given to Spawn; 0: an operation that could not be started
	Op     *Op
	Result int64
}

// Turns is C memory for one exchange: the operations to start, and the fibers whose turn it is.
type Turns struct {
	Ops []*Op
	Out []Completion
}

// The layouts of Op and Completion must be those of C.
const (
	_ = -(unsafe.Sizeof(Op{}) ^ C.sizeof_fiber_op_t)
	_ = -(unsafe.Offsetof(Op{}.Result) ^ unsafe.Offsetof(C.fiber_op_t{}.result))
	_ = -(unsafe.Offsetof(Op{}.Address) ^ unsafe.Offsetof(C.fiber_op_t{}.address))
	_ = -(unsafe.Offsetof(Op{}.Number) ^ unsafe.Offsetof(C.fiber_op_t{}.number))
	_ = -(unsafe.Offsetof(Op{}.Function) ^ unsafe.Offsetof(C.fiber_op_t{}.function))
	_ = -(unsafe.Sizeof(Completion{}) ^ C.sizeof_fiber_completion_t)
	_ = -(unsafe.Offsetof(Completion{}.Result) ^ unsafe.Offsetof(C.fiber_completion_t{}.result))
)

// NewTurns allocates memory for exchanges of up to n operations and n turns. It returns nil if there is no memory.
func NewTurns(n int) *Turns {
	ops := C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(uintptr(0))))
	out := C.calloc(C.size_t(n), C.sizeof_fiber_completion_t)
	if ops == nil || out == nil {
		C.free(ops)
		C.free(out)
		return nil
	}
	return &Turns{Ops: unsafe.Slice((**Op)(ops), n), Out: unsafe.Slice((*Completion)(out), n)}
}

// Free frees the memory.
func (t *Turns) Free() {
	C.free(unsafe.Pointer(&t.Ops[0]))
	C.free(unsafe.Pointer(&t.Out[0]))
	t.Ops, t.Out = nil, nil
}

// Exchange is fiber_exchange with the first n operations.
func (t *Turns) Exchange(n int, timeoutNs int64) int {
	return int(C.raw_exchange(unsafe.Pointer(&t.Ops[0]), C.int(n), unsafe.Pointer(&t.Out[0]), C.int(len(t.Out)),
		C.int64_t(timeoutNs)))
}

// Spawn makes a detached hosted fiber for [Turns.Exchange] and wakes it. Its completions have the number user.
func Spawn(attr Attr, user uint64, name Text) (fiber Fiber, result int) {
	var id C.uint64_t
	result = int(C.raw_spawn(&id, unsafe.Pointer(attr), C.uint64_t(user), unsafe.Pointer(name)))
	return Fiber(id), result
}

// Wakeup is fiber_wakeup. From any thread.
func Wakeup(fiber Fiber) int { return int(C.raw_wakeup(C.uint64_t(fiber))) }

// Interrupt is fiber_interrupt without a value. From any thread.
func Interrupt(fiber Fiber) int { return int(C.raw_interrupt(C.uint64_t(fiber))) }

// Cancel is fiber_cancel without a reason. From any thread.
func Cancel(fiber Fiber) int { return int(C.raw_cancel(C.uint64_t(fiber))) }

// Attr is fiber_attr_t.
type Attr unsafe.Pointer

// Detached makes the attributes of detached fibers.
func Detached() (Attr, int) {
	var attr *C.fiber_attr_t
	result := int(C.raw_detached(&attr))
	return Attr(attr), result
}

// FreeAttr frees attributes.
func FreeAttr(attr Attr) { C.fiber_attr_destroy((*C.fiber_attr_t)(attr)) }

// NewOps makes count operation records, all zero. [FreeOps] frees them together.
func NewOps(count int) ([]Op, int) {
	var ops *C.fiber_op_t
	if result := int(C.fiber_ops_create(&ops, C.size_t(count))); result < 0 {
		return nil, result
	}
	return unsafe.Slice((*Op)(unsafe.Pointer(ops)), count), 0
}

// FreeOps frees the records of one call of NewOps.
func FreeOps(ops []Op) { C.fiber_ops_destroy((*C.fiber_op_t)(unsafe.Pointer(&ops[0]))) }
