// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// The cord on a thread of C's. A goroutine's operation goes there as a task; one goroutine of the cord's sleeps in Go's
// poller until some have ended, and tells all of these.

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

const tasksOfBlock = 64 // tasks that are made at once

// Cord is a thread of C's on which fibers of C run: functions that wait without blocking it, by the calls of fiberrt.h.
// Goroutines, and fibers of a [Run], start them by [Cord.SpawnC]. All methods may be called anywhere; those that wait block
// the goroutine, so fibers use [Await] for these.
type Cord struct {
	thread *raw.Thread
	file   *os.File      // of its descriptor
	done   chan struct{} // closed at the end

	mu      sync.Mutex
	blocks  [][]raw.Task
	free    []*raw.Task
	futures []*Future // by number of the task
	live    int       // futures that have not ended
	closed  bool
	ending  []*Future // for the cord's goroutine alone
}

// StartCord starts a cord's thread. The name, of which 15 bytes are kept, is the thread's. It lives until [Cord.Close] or
// [Cord.Shutdown].
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
	if err := c.file.SetReadDeadline(time.Time{}); err != nil { // Go's poller has not taken it
		thread.Stop()
		thread.Join()
		c.file.Close()
		return nil, err
	}
	go c.listen()
	return c, nil
}

// Close cancels what C functions wait for, refuses new ones, and returns when all have returned and the thread has ended.
// The error is always nil. A C function that does not return after its waits have failed keeps it waiting; [Dump] shows it.
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

// Shutdown refuses new C functions, and returns when those that run have ended by themselves, and so has the thread. If ctx
// is done before, it returns the cause of that, and all else goes on; [Cord.Close] then ends it.
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

// Begins an operation, which set says, on the cord's thread. The pointers in it must be to memory of C's, or pinned until
// the future has ended. If that is not possible the future has ended. Anywhere.
func (c *Cord) begin(call string, set func(op *raw.Op)) *Future {
	u := &Future{cord: c, call: call}
	task, err := c.task(u)
	if err != nil {
		return u.stillborn(err)
	}
	set(&task.Op)
	c.thread.Start(task)
	return u
}

// A fresh task for a future. From now on that may be cancelled.
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

// The cord's goroutine. The descriptor is not read: each write to it is news for Go's poller.
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

// These tasks have ended. Their memory is for others only when their futures know nothing of it any more.
func (c *Cord) end(tasks *raw.Task) {
	c.mu.Lock()
	for task := tasks; task != nil; task = task.Next {
		c.ending = append(c.ending, c.futures[task.Number])
		c.futures[task.Number] = nil
	}
	c.mu.Unlock()
	for i, task := 0, tasks; task != nil; i, task = i+1, task.Next {
		task.Op.Address = nil // it is pinned until then, and must not be found there later
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

// SpawnC starts the function that fn points to, an int64_t (*)(void *) of C's, as a fiber of the cord with a stack of 256
// KiB, and calls it with arg. A negative result -E... is an [Error] with that number. Functions begin in the order in which
// one goroutine starts them.
//
// arg points to memory of C's, or to pinned memory of Go's ([runtime.Pinner]) without pointers to what is not, until the
// future has ended. The function must not call Go: see [Callback].
//
// A future is always returned. If the function could not be started it has ended: with [syscall.EINVAL] if fn is nil, with
// [os.ErrClosed] if the cord is closed.
func (c *Cord) SpawnC(fn, arg unsafe.Pointer) *Future {
	if fn == nil {
		return new(Future).stillborn(&Error{Call: "SpawnC", Errno: syscall.EINVAL})
	}
	return c.begin("SpawnC", func(op *raw.Op) {
		op.Code = raw.OpCall
		op.Function = uintptr(fn)
		op.Address = arg
	})
}

// SpawnCContext is [Cord.SpawnC] of a function that is cancelled when ctx is done, as by [Future.Cancel]; the error then
// is also ctx's cause. If it is done already the function does not run.
func (c *Cord) SpawnCContext(ctx context.Context, fn, arg unsafe.Pointer) *Future {
	if ctx.Err() != nil {
		return new(Future).stillborn(&Error{Call: "SpawnC", Errno: syscall.ECANCELED, Cause: context.Cause(ctx)})
	}
	u := c.SpawnC(fn, arg)
	u.follow(ctx)
	return u
}
