// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Listener accepts connections: a [net.Listener] for ordinary goroutines. [Listener.On] returns the listener for a
// fiber.
type Listener struct{ *descriptor }

// Listen listens on an address, as [net.Listen] does. The networks are "tcp", "tcp4", "tcp6" and "unix".
func Listen(ctx context.Context, network, address string) (*Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return NewListener(listener)
}

// NewListener takes over a TCP or Unix listener of package net, for example one made by a [net.ListenConfig]. It always
// closes listener, even if it fails.
func NewListener(listener net.Listener) (*Listener, error) {
	defer listener.Close()
	local := listener.Addr()
	fd, err := takeOver(listener, local)
	if err != nil {
		return nil, &net.OpError{Op: "take over", Net: local.Network(), Addr: local, Err: err}
	}
	l := &Listener{newDescriptor(fd, local.Network(), local, nil)}
	if of, ok := listener.(*net.UnixListener); ok {
		of.SetUnlinkOnClose(false)
		if name := local.String(); name != "" && name[0] != '@' {
			l.onGone = func() { os.Remove(name) }
		}
	}
	runtime.SetFinalizer(l, func(l *Listener) { l.Close() })
	return l, nil
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn is Accept, but returns a [*Conn].
func (l *Listener) AcceptConn() (*Conn, error) { return l.accept(goroutine{}) }

// Close stops listening: calls that wait for a connection end with an error that is [net.ErrClosed]. The file of a Unix
// socket is removed.
func (l *Listener) Close() error { return l.end(goroutine{}) }

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return l.local }

// SetDeadline sets the time at which Accept ends with an error that is [os.ErrDeadlineExceeded]. The zero time means
// never.
func (l *Listener) SetDeadline(t time.Time) error {
	return l.wrap("set", l.setDeadline(t, &l.reading))
}

func (l *Listener) end(by caller) error {
	runtime.SetFinalizer(l, nil)
	return l.wrap("close", l.close(by))
}

func (l *Listener) accept(by caller) (c *Conn, err error) {
	err = l.use(by, &l.reading, func() error {
		for {
			fd, err := l.transfer(by, &l.reading, "accept4", raw.OpAccept, nil, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			if errors.Is(err, syscall.ECONNABORTED) { // the peer left before the accept
				continue
			}
			if err == nil {
				c = l.accepted(fd)
			}
			return err
		}
	})
	return c, l.wrap("accept", err)
}

// Makes a connection with the socket options that package net sets.
func (l *Listener) accepted(fd int) *Conn {
	if l.network == "tcp" {
		const idleS, intervalS, probes = 15, 15, 9
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1)
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, idleS)
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, intervalS)
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, probes)
	}
	local, _ := syscall.Getsockname(fd)
	remote, _ := syscall.Getpeername(fd)
	return makeConn(fd, l.addr(local), l.addr(remote))
}

// Converts an address to its type in package net. The address of a peer that is gone is empty.
func (l *Listener) addr(of syscall.Sockaddr) net.Addr {
	switch of := of.(type) {
	case *syscall.SockaddrInet4:
		return &net.TCPAddr{IP: of.Addr[:], Port: of.Port}
	case *syscall.SockaddrInet6:
		addr := &net.TCPAddr{IP: of.Addr[:], Port: of.Port}
		if of.ZoneId != 0 {
			addr.Zone = strconv.Itoa(int(of.ZoneId))
			if device, err := net.InterfaceByIndex(int(of.ZoneId)); err == nil {
				addr.Zone = device.Name
			}
		}
		return addr
	case *syscall.SockaddrUnix:
		return &net.UnixAddr{Name: of.Name, Net: "unix"}
	}
	if l.network == "tcp" {
		return &net.TCPAddr{}
	}
	return &net.UnixAddr{Net: "unix"}
}

// FiberListener is a [Listener] bound to a fiber. Every other caller gets [ErrNotTheFiber].
type FiberListener struct {
	Listener *Listener // the listener for ordinary goroutines
	by       bound
}

// On returns the listener for the fiber f, which must be the caller.
func (l *Listener) On(f *Fiber) *FiberListener {
	f.check("On")
	return &FiberListener{l, bound{f: f, g: f.g}}
}

// Accept waits for a connection while other fibers run. The connection is not bound to a fiber: the fiber that will use
// it calls [Conn.On].
func (l *FiberListener) Accept() (*Conn, error) {
	if !l.by.isHere() {
		return nil, l.Listener.wrap("accept", ErrNotTheFiber)
	}
	return l.Listener.accept(&l.by)
}

// Close is [Listener.Close]. A cancel of the fiber does not end its wait.
func (l *FiberListener) Close() error {
	if !l.by.isHere() {
		return l.Listener.wrap("close", ErrNotTheFiber)
	}
	return l.Listener.end(&l.by)
}
