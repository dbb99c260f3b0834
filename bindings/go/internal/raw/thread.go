// SPDX-License-Identifier: MIT OR Apache-2.0

package raw

/*
#include "thread.h"
#include <stdlib.h>
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// Task is an operation for a [Thread], in C memory: struct raw_task.
type Task struct {
	Next      *Task // the next one in the list that [Thread.Take] returned
	thread    *Thread
	fiber     uint64
	cancelled uint32
	Number    uint32 // the caller's own
	begun     uint64
	Name      Text // of the fiber; nil: the name of all fibers of tasks
	Op        Op   // without a fiber
}

// Thread is a cord on a C thread: the beginning of struct raw_thread, in C memory. The thread blocks the signals that
// other threads send, and has a signal stack for those that its own instructions raise.
type Thread struct {
	asked    unsafe.Pointer
	done     unsafe.Pointer
	listens  uint32
	stop     uint32
	ended    uint32
	fd       int32
	mainFlow Fiber
}

// The layouts of Task and Thread must be those of C.
const (
	_ = -(unsafe.Sizeof(Task{}) ^ C.sizeof_struct_raw_task)
	_ = -(unsafe.Offsetof(Task{}.fiber) ^ unsafe.Offsetof(C.struct_raw_task{}.fiber))
	_ = -(unsafe.Offsetof(Task{}.cancelled) ^ unsafe.Offsetof(C.struct_raw_task{}.cancelled))
	_ = -(unsafe.Offsetof(Task{}.Number) ^ unsafe.Offsetof(C.struct_raw_task{}.number))
	_ = -(unsafe.Offsetof(Task{}.begun) ^ unsafe.Offsetof(C.struct_raw_task{}.begun))
	_ = -(unsafe.Offsetof(Task{}.Name) ^ unsafe.Offsetof(C.struct_raw_task{}.name))
	_ = -(unsafe.Offsetof(Task{}.Op) ^ unsafe.Offsetof(C.struct_raw_task{}.op))
	_ = -(unsafe.Offsetof(Thread{}.done) ^ unsafe.Offsetof(C.struct_raw_thread{}.done))
	_ = -(unsafe.Offsetof(Thread{}.listens) ^ unsafe.Offsetof(C.struct_raw_thread{}.listens))
	_ = -(unsafe.Offsetof(Thread{}.stop) ^ unsafe.Offsetof(C.struct_raw_thread{}.stop))
	_ = -(unsafe.Offsetof(Thread{}.ended) ^ unsafe.Offsetof(C.struct_raw_thread{}.ended))
	_ = -(unsafe.Offsetof(Thread{}.fd) ^ unsafe.Offsetof(C.struct_raw_thread{}.fd))
	_ = -(unsafe.Offsetof(Thread{}.mainFlow) ^ unsafe.Offsetof(C.struct_raw_thread{}.main_flow))
)

// NewThread starts a thread with a cord. Up to 15 bytes of the name are kept.
func NewThread(name string) (*Thread, int) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var thread *C.struct_raw_thread
	result := int(C.raw_thread_start(&thread, text))
	return (*Thread)(unsafe.Pointer(thread)), result
}

// Fd returns an eventfd, which the caller must close after [Thread.Join]. [Thread.Listen] says when it is written to.
func (t *Thread) Fd() int { return int(t.fd) }

// Renew resets a task that has ended. The caller must then set its operation.
func (task *Task) Renew() {
	task.fiber, task.cancelled, task.begun = 0, 0, 0
	task.Op.Fiber, task.Op.Flags = 0, 0
}

// Start has the thread perform the operation of a renewed task. Tasks begin in the order of their starts.
func (t *Thread) Start(task *Task) {
	mainFlow := t.mainFlow // t may be freed as soon as the thread sees the task
	for {
		before := atomic.LoadPointer(&t.asked)
		task.Next = (*Task)(before)
		if atomic.CompareAndSwapPointer(&t.asked, before, unsafe.Pointer(task)) {
			if before == nil {
				Wakeup(mainFlow)
			}
			return
		}
	}
}

// Cancel cancels the operation of a task, even before it has begun. It has no effect on a task that has ended, but the
// task must not have been renewed.
func (t *Thread) Cancel(task *Task) {
	atomic.StoreUint32(&task.cancelled, 1)
	if fiber := atomic.LoadUint64(&task.fiber); fiber != 0 {
		Cancel(Fiber(fiber))
	}
}

// Take returns the tasks that have ended since the last call, in the order of their ends, linked by Next, with their
// results in Op. It returns nil if none has ended. Only one goroutine at a time may call it.
func (t *Thread) Take() *Task {
	var first *Task
	for task := (*Task)(atomic.SwapPointer(&t.done, nil)); task != nil; {
		next := task.Next
		task.Next = first
		first, task = task, next
	}
	return first
}

// Listen asks the thread to write to the descriptor when the next task has ended. It returns false if a task has ended
// already.
func (t *Thread) Listen() bool {
	atomic.StoreUint32(&t.listens, 1)
	if atomic.LoadPointer(&t.done) == nil {
		return true
	}
	atomic.StoreUint32(&t.listens, 0)
	return false
}

// Stop ends the thread. No task may be in progress. The thread cancels all other fibers, waits until they have ended,
// and then writes to the descriptor.
func (t *Thread) Stop() {
	mainFlow := t.mainFlow // t may be freed then
	atomic.StoreUint32(&t.stop, 1)
	Wakeup(mainFlow)
}

// Ended tells whether the thread is about to exit.
func (t *Thread) Ended() bool { return atomic.LoadUint32(&t.ended) != 0 }

// Join waits for the exit, and frees t.
func (t *Thread) Join() { C.raw_thread_join((*C.struct_raw_thread)(unsafe.Pointer(t))) }

// NewTasks makes count tasks, all zero, in one block; nil if there is no memory.
func NewTasks(count int) []Task {
	block := C.calloc(C.size_t(count), C.sizeof_struct_raw_task)
	if block == nil {
		return nil
	}
	return unsafe.Slice((*Task)(block), count)
}

// FreeTasks frees the tasks of one call of NewTasks.
func FreeTasks(tasks []Task) { C.free(unsafe.Pointer(&tasks[0])) }
