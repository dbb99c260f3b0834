// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Conn is a connection, as package net has them: a [net.Conn] for ordinary goroutines, whose waits are those of a cord on
// a thread of its own. [Conn.On] is the same connection for a fiber. Never a goroutine's call in a fiber: it would stop all
// fibers of its Run.
type Conn struct{ *descriptor }

// Dial connects to a server by the ways of package net: the networks are "tcp", "tcp4", "tcp6" and "unix". In a fiber, see
// [Fiber.Dial].
func Dial(ctx context.Context, network, address string) (*Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return NewConn(conn)
}

// NewConn takes a connection over from package net, of TCP or a Unix socket: made by a [net.Dialer], say. It closes conn,
// in any case.
func NewConn(conn net.Conn) (*Conn, error) {
	defer conn.Close()
	local, remote := conn.LocalAddr(), conn.RemoteAddr()
	fd, err := takeOver(conn, local)
	if err != nil {
		return nil, &net.OpError{Op: "take over", Net: local.Network(), Source: local, Addr: remote, Err: err}
	}
	return makeConn(fd, local, remote), nil
}

func makeConn(fd int, local, remote net.Addr) *Conn {
	c := &Conn{newDescriptor(fd, local.Network(), local, remote)}
	runtime.SetFinalizer(c, func(c *Conn) { c.Close() })
	return c
}

// A descriptor of its own for a socket of package net.
func takeOver(socket any, local net.Addr) (fd int, err error) {
	source, ok := socket.(syscall.Conn)
	if network := local.Network(); !ok || network != "tcp" && network != "unix" {
		return 0, net.UnknownNetworkError(network)
	}
	control, err := source.SyscallConn()
	if err != nil {
		return 0, err
	}
	var errno syscall.Errno
	err = control.Control(func(of uintptr) {
		var result uintptr
		result, _, errno = syscall.Syscall(syscall.SYS_FCNTL, of, syscall.F_DUPFD_CLOEXEC, 0)
		fd = int(result)
	})
	if err == nil && errno != 0 {
		err = os.NewSyscallError("fcntl", errno)
	}
	return fd, err
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) { return c.read(goroutine{}, p) }

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) { return c.write(goroutine{}, p) }

// Close closes the connection, for fibers as well: calls that wait for it end with an error that is [net.ErrClosed].
func (c *Conn) Close() error { return c.end(goroutine{}) }

// LocalAddr implements [net.Conn].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements [net.Conn].
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines. They are the connection's: for fibers as well.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.wrap("set", c.setDeadline(t, &c.reading, &c.writing))
}

// SetReadDeadline sets when reads end with an error that is [os.ErrDeadlineExceeded]; the zero time is never.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.wrap("set", c.setDeadline(t, &c.reading)) }

// SetWriteDeadline is the same for writes, which may have written some of it by then.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.wrap("set", c.setDeadline(t, &c.writing))
}

// CloseRead ends the direction to here.
func (c *Conn) CloseRead() error { return c.shutdown(syscall.SHUT_RD) }

// CloseWrite ends the direction from here: the other side reads the end.
func (c *Conn) CloseWrite() error { return c.shutdown(syscall.SHUT_WR) }

func (c *Conn) shutdown(how int) error {
	return c.wrap("close", c.control(func(fd int) error {
		return os.NewSyscallError("shutdown", syscall.Shutdown(fd, how))
	}))
}

// Control calls fn with the descriptor, which is not closed meanwhile: to set an option.
func (c *Conn) Control(fn func(fd uintptr)) error {
	return c.wrap("control", c.control(func(fd int) error { fn(uintptr(fd)); return nil }))
}

func (c *Conn) read(by caller, p []byte) (n int, err error) {
	err = c.use(by, &c.reading, func() error {
		if len(p) > 0 {
			n, err = c.transfer(by, &c.reading, "read", raw.OpRecv, p, 0)
			if n == 0 && err == nil {
				err = io.EOF
			}
		}
		return err
	})
	return n, c.wrap("read", err)
}

func (c *Conn) write(by caller, p []byte) (n int, err error) {
	err = c.use(by, &c.writing, func() error {
		for n < len(p) {
			some, err := c.transfer(by, &c.writing, "write", raw.OpSend, p[n:], syscall.MSG_NOSIGNAL)
			if err != nil {
				return err
			}
			n += some
		}
		return nil
	})
	return n, c.wrap("write", err)
}

func (c *Conn) end(by caller) error {
	runtime.SetFinalizer(c, nil)
	return c.wrap("close", c.close(by))
}

// The error as package net gives it. The end of what there is to read is not one.
func (d *descriptor) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	source, addr := d.local, d.remote
	if addr == nil {
		source, addr = nil, d.local
	}
	return &net.OpError{Op: op, Net: d.network, Source: source, Addr: addr, Err: err}
}

// The goroutine that calls, which is no fiber.
type goroutine struct{}

func (goroutine) take(turn chan struct{}) error { turn <- struct{}{}; return nil }

func (goroutine) await(gone chan struct{}) error { <-gone; return nil }

func (goroutine) attempt(code uint32, fd int, p []byte, mode int32) int64 {
	for {
		var n int
		var err error
		switch code {
		case raw.OpRecv:
			n, err = syscall.Read(fd, p)
		case raw.OpSend:
			n, err = syscall.SendmsgN(fd, p, nil, nil, int(mode))
		case raw.OpAccept:
			n, _, err = syscall.Accept4(fd, int(mode))
		default:
			panic("fiberrt: no operation that can be attempted")
		}
		if err == nil {
			return int64(n)
		}
		if err != syscall.EINTR {
			return -int64(err.(syscall.Errno))
		}
	}
}

func (goroutine) party() (party, int64) {
	cord, result := startedIOCord()
	return &request{cord: cord}, result
}

func (goroutine) why(call string, result int64) error {
	return os.NewSyscallError(call, syscall.Errno(-result))
}
