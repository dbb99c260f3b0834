// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// A cord on a C thread, for goroutines. A goroutine's operation goes to the thread as a task. One goroutine per cord
// sleeps in Go's poller until tasks have ended, and then completes their futures.

package fiberrt

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/raw"
)

const tasksOfBlock = 64 // tasks allocated at once

// Cord is a C thread that runs C functions as fibers: they wait by the calls of fiberrt.h, which do not block the
// thread. Goroutines, and fibers of a [Run], start such functions by [Cord.SpawnC]. All methods may be called anywhere;
// those that wait block the goroutine, so a fiber must call them in [Await].
type Cord struct {
	thread *raw.Thread
	file   *os.File      // the thread's descriptor
	done   chan struct{} // closed at the end

	mu      sync.Mutex
	blocks  [][]raw.Task
	free    []*raw.Task
	futures []*Future // by number of the task
	live    int       // futures that have not ended
	closed  bool
	ending  []*Future // used only by the cord's goroutine
}

// StartCord starts a cord and its thread. The thread gets the first 15 bytes of name as its name. The cord lives until
// [Cord.Close] or [Cord.Shutdown].
func StartCord(name string) (*Cord, error) {
	result := inSimulation()
	if result < 0 {
		return nil, failure("StartCord", int64(result))
	}
	thread, result := raw.NewThread(name)
	if result < 0 {
		return nil, failure("StartCord", int64(result))
	}
	c := &Cord{thread: thread, file: os.NewFile(uintptr(thread.Fd()), "fiberrt"), done: make(chan struct{})}
	if err := c.file.SetReadDeadline(time.Time{}); err != nil { // Go's poller has refused the descriptor
		thread.Stop()
		thread.Join()
		c.file.Close()
		return nil, err
	}
	go c.listen()
	return c, nil
}

// Close cancels the running C functions, refuses new ones, and returns when all have returned and the thread has ended.
// The error is always nil. Close waits for a C function that does not return after its waits have failed; [Dump] shows
// it.
func (c *Cord) Close() error {
	c.close()
	c.mu.Lock()
	var live []*Future
	for _, u := range c.futures {
		if u != nil {
			live = append(live, u)
		}
	}
	c.mu.Unlock()
	for _, u := range live {
		u.cancel(os.ErrClosed)
	}
	<-c.done
	return nil
}

// Shutdown refuses new C functions, waits for the running ones to end by themselves, and returns when the thread has
// ended. If ctx is done before, Shutdown returns the cause of ctx, and the C functions continue; [Cord.Close] then ends
// them.
func (c *Cord) Shutdown(ctx context.Context) error {
	c.close()
	select {
	case <-c.done:
		return nil
	default:
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Cord) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.stopIfIdle()
	}
}

func (c *Cord) stopIfIdle() {
	if c.closed && c.live == 0 {
		c.thread.Stop()
	}
}

// Starts an operation on the cord's thread; set fills its record. Its pointers must point to C memory, or to memory
// that is pinned until the future has ended. If the operation cannot be started, the returned future has ended.
// Anywhere.
func (c *Cord) begin(call string, set func(op *raw.Op)) *Future { return c.beginAs(call, nil, set) }

// Begins an operation by a fiber with a name; nil: the name of all such fibers.
func (c *Cord) beginAs(call string, name raw.Text, set func(op *raw.Op)) *Future {
	u := &Future{cord: c, call: call}
	task, err := c.task(u)
	if err != nil {
		return u.stillborn(err)
	}
	task.Name = name
	set(&task.Op)
	c.thread.Start(task)
	return u
}

// Returns an unused task for a future. From here on the future may be cancelled.
func (c *Cord) task(u *Future) (*raw.Task, *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, &Error{Call: u.call, Errno: syscall.EPIPE, Cause: os.ErrClosed}
	}
	if len(c.free) == 0 {
		block := raw.NewTasks(tasksOfBlock)
		if block == nil {
			return nil, &Error{Call: u.call, Errno: syscall.ENOMEM}
		}
		c.blocks = append(c.blocks, block)
		for i := range block {
			block[i].Number = uint32(len(c.futures))
			c.futures = append(c.futures, nil)
			c.free = append(c.free, &block[i])
		}
	}
	task := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	task.Renew()
	c.futures[task.Number] = u
	c.live++
	u.task = task
	return task, nil
}

// The cord's goroutine. It does not read the descriptor: each write to it wakes Go's poller.
func (c *Cord) listen() {
	conn, err := c.file.SyscallConn()
	if err == nil {
		err = conn.Read(func(uintptr) bool {
			for {
				if tasks := c.thread.Take(); tasks != nil {
					c.end(tasks)
				} else if c.thread.Listen() {
					return c.thread.Ended()
				}
			}
		})
	}
	if err != nil {
		panic("fiberrt: a cord has lost its descriptor: " + err.Error())
	}
	c.thread.Join()
	c.file.Close()
	for _, block := range c.blocks {
		raw.FreeTasks(block)
	}
	close(c.done)
}

// Completes the futures of ended tasks. A task is free for reuse only after its future no longer refers to it.
func (c *Cord) end(tasks *raw.Task) {
	c.mu.Lock()
	for task := tasks; task != nil; task = task.Next {
		c.ending = append(c.ending, c.futures[task.Number])
		c.futures[task.Number] = nil
	}
	c.mu.Unlock()
	for i, task := 0, tasks; task != nil; i, task = i+1, task.Next {
		task.Op.Address = nil // the memory is pinned until the future ends; a free task must not point to it
		c.ending[i].end(task.Op.Result)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for task := tasks; task != nil; task = task.Next {
		c.free = append(c.free, task)
		c.live--
	}
	c.stopIfIdle()
	clear(c.ending)
	c.ending = c.ending[:0]
}

// SpawnC runs a C function as a fiber of the cord, with a stack of 256 KiB, and returns a future for its result. fn
// points to the function, an int64_t (*)(void *), which is called with arg. A negative result -E... becomes an [Error]
// with that number. Functions that one goroutine starts begin in that order.
//
// Until the future has ended, arg must point to C memory, or to pinned Go memory ([runtime.Pinner]) that contains no
// pointers to unpinned memory. The function must not call Go: see [Callback].
//
// SpawnC always returns a future. If the function could not be started, the future has ended: with [syscall.EINVAL] if
// fn is nil, with [os.ErrClosed] if the cord is closed.
func (c *Cord) SpawnC(fn, arg unsafe.Pointer) *Future {
	if fn == nil {
		return new(Future).stillborn(&Error{Call: "SpawnC", Errno: syscall.EINVAL})
	}
	name := nameOfC(fn)
	return c.beginAs("SpawnC", name, func(op *raw.Op) {
		op.Code = raw.OpCall
		op.Function = uintptr(fn)
		op.Address = arg
	})
}

// SpawnCContext is [Cord.SpawnC] with a context: when ctx is done, the function is cancelled as by [Future.Cancel], and
// the cause of ctx is in its error. If ctx is already done, the function does not run.
func (c *Cord) SpawnCContext(ctx context.Context, fn, arg unsafe.Pointer) *Future {
	if ctx.Err() != nil {
		return new(Future).stillborn(&Error{Call: "SpawnC", Errno: syscall.ECANCELED, Cause: context.Cause(ctx)})
	}
	u := c.SpawnC(fn, arg)
	u.follow(ctx)
	return u
}
