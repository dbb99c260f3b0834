// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/raw"
	"example.com/fiberrt/bindings/go/internal/self"
)

// ErrNotTheFiber is the error of a [FiberConn] or [FiberListener] if the caller is not the fiber that it is bound to.
var ErrNotTheFiber = errors.New("fiberrt: used by a fiber that it is not bound to")

// FiberConn is a [Conn] bound to a fiber: a [net.Conn] whose waits let other fibers run. Every other caller gets
// [ErrNotTheFiber]. The error of a wait that ends early is an [Error] in a [net.OpError].
type FiberConn struct {
	Conn *Conn // the connection for ordinary goroutines
	by   bound
}

// On returns the connection for the fiber f, which must be the caller.
func (c *Conn) On(f *Fiber) *FiberConn {
	f.check("On")
	return &FiberConn{c, bound{f: f, g: f.g}}
}

// Dial connects to a server, as the function [Dial] does, while other fibers run.
func (f *Fiber) Dial(network, address string) (*FiberConn, error) {
	c, err := Await(f, func(ctx context.Context) (*Conn, error) { return Dial(ctx, network, address) })
	if err != nil {
		return nil, err
	}
	return c.On(f), nil
}

// Read implements [net.Conn].
func (c *FiberConn) Read(p []byte) (int, error) {
	if err := c.check("read"); err != nil {
		return 0, err
	}
	return c.Conn.read(&c.by, p)
}

// Write implements [net.Conn]. A write that ends early may have written some of the data.
func (c *FiberConn) Write(p []byte) (int, error) {
	if err := c.check("write"); err != nil {
		return 0, err
	}
	return c.Conn.write(&c.by, p)
}

// Close is [Conn.Close]. A cancel of the fiber does not end its wait.
func (c *FiberConn) Close() error {
	if err := c.check("close"); err != nil {
		return err
	}
	return c.Conn.end(&c.by)
}

// LocalAddr implements [net.Conn]. Anywhere.
func (c *FiberConn) LocalAddr() net.Addr { return c.Conn.local }

// RemoteAddr implements [net.Conn]. Anywhere.
func (c *FiberConn) RemoteAddr() net.Addr { return c.Conn.remote }

// SetDeadline is [Conn.SetDeadline], which other callers may use.
func (c *FiberConn) SetDeadline(t time.Time) error {
	if err := c.check("set"); err != nil {
		return err
	}
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline is [Conn.SetReadDeadline].
func (c *FiberConn) SetReadDeadline(t time.Time) error {
	if err := c.check("set"); err != nil {
		return err
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline is [Conn.SetWriteDeadline].
func (c *FiberConn) SetWriteDeadline(t time.Time) error {
	if err := c.check("set"); err != nil {
		return err
	}
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite is [Conn.CloseWrite].
func (c *FiberConn) CloseWrite() error {
	if err := c.check("close"); err != nil {
		return err
	}
	return c.Conn.CloseWrite()
}

func (c *FiberConn) check(op string) error {
	if c.by.isHere() {
		return nil
	}
	return c.Conn.wrap(op, ErrNotTheFiber)
}

// The fiber to which a connection or a listener is bound.
type bound struct {
	f *Fiber
	g uintptr // f's goroutine, which may run other fibers later

	waiting bool // the fiber waits for an operation
	kicks   int  // interrupts sent to end the operation
	pinner  runtime.Pinner
}

func (b *bound) isHere() bool {
	return self.G() == b.g && !b.f.ended.Load() && b.f.callbacks == 0
}

func (b *bound) take(turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	default:
		return Send(b.f, turn, struct{}{})
	}
}

func (b *bound) await(gone chan struct{}) error {
	select {
	case <-gone:
		return nil
	default:
	}
	return b.f.shielded("Close", func() error {
		_, _, err := Recv(b.f, gone)
		return err
	})
}

// Returns -EAGAIN: the cord makes the first attempt, too.
func (b *bound) attempt(uint32, int, []byte, int32) int64 { return -int64(syscall.EAGAIN) }

func (b *bound) party() (party, int64) { return b, 0 }

func (b *bound) why(call string, result int64) error {
	if b.f.hub.broken || result == -int64(syscall.ECANCELED) {
		return b.f.why(call, result)
	}
	return os.NewSyscallError(call, syscall.Errno(-result))
}

func (b *bound) transfer(code uint32, fd int, p []byte, mode int32, timeoutNs int64) int64 {
	op := b.f.op
	setTransfer(op, code, fd, mode, timeoutNs)
	if len(p) > 0 {
		b.pinner.Pin(unsafe.SliceData(p))
		op.Address, op.Length = unsafe.Pointer(unsafe.SliceData(p)), uint64(len(p))
	}
	b.waiting = true
	result := b.f.wait(code)
	b.waiting = false
	if b.f.hub.broken {
		abandon(b)
		return result
	}
	op.Address, op.Flags = nil, 0
	b.pinner.Unpin()
	if result == -int64(syscall.EINTR) && b.kicks > 0 {
		b.kicks--
	}
	b.f.stale += b.kicks
	b.kicks = 0
	return result
}

// Has the hub interrupt the fiber: only the hub's goroutine knows whether the fiber still waits for this operation.
func (b *bound) kick() {
	b.f.hub.post(func() {
		if !b.waiting {
			return
		}
		switch raw.Interrupt(b.f.handle) {
		case 0:
			b.kicks++
		case -int(syscall.EBUSY):
			if b.f.stale > 0 { // an earlier interrupt is still pending and will end the operation
				b.f.stale--
				b.kicks++
			}
		}
	})
}

// Callers whose cord may still write to their buffers. The buffers stay pinned for ever.
var (
	abandonedMu sync.Mutex
	abandoned   []*bound
)

func abandon(b *bound) {
	abandonedMu.Lock()
	defer abandonedMu.Unlock()
	abandoned = append(abandoned, b)
}
