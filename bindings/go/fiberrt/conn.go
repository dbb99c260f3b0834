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

// Conn is a network connection: a [net.Conn] for ordinary goroutines. A cord on a separate thread makes its waits. A
// fiber must not call the methods of a Conn that wait, because they would stop all fibers of that Run; [Conn.On]
// returns the connection for a fiber.
type Conn struct{ *descriptor }

// Dial connects to a server, as package net does. The networks are "tcp", "tcp4", "tcp6" and "unix". A fiber must use
// [Fiber.Dial].
func Dial(ctx context.Context, network, address string) (*Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return NewConn(conn)
}

// NewConn takes over a TCP or Unix connection of package net, for example one made by a [net.Dialer]. It always closes
// conn, even if it fails.
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

// Returns a duplicate of the descriptor of a socket of package net.
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

// Close closes the connection, also for fibers: calls that wait for it end with an error that is [net.ErrClosed].
func (c *Conn) Close() error { return c.end(goroutine{}) }

// LocalAddr implements [net.Conn].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements [net.Conn].
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets the deadlines for reads and writes, also for those of fibers.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.wrap("set", c.setDeadline(t, &c.reading, &c.writing))
}

// SetReadDeadline sets the time at which reads end with an error that is [os.ErrDeadlineExceeded]. The zero time means
// never.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.wrap("set", c.setDeadline(t, &c.reading)) }

// SetWriteDeadline sets the time at which writes end with an error that is [os.ErrDeadlineExceeded]. The zero time
// means never. Such a write may have written some of the data.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.wrap("set", c.setDeadline(t, &c.writing))
}

// CloseRead shuts down the receiving side of the connection.
func (c *Conn) CloseRead() error { return c.shutdown(syscall.SHUT_RD) }

// CloseWrite shuts down the sending side of the connection: the peer reads the end.
func (c *Conn) CloseWrite() error { return c.shutdown(syscall.SHUT_WR) }

func (c *Conn) shutdown(how int) error {
	return c.wrap("close", c.control(func(fd int) error {
		return os.NewSyscallError("shutdown", syscall.Shutdown(fd, how))
	}))
}

// Control calls fn with the descriptor, for example to set an option. The descriptor stays open until fn returns.
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

// Wraps an error as package net does. io.EOF stays as it is.
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

// The calling goroutine, which is not a fiber.
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
			panic("fiberrt: the connection has no operation to try")
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
