// SPDX-License-Identifier: MIT OR Apache-2.0

// Package nettest runs the tests of golang.org/x/net/nettest on connections of goroutines, and on connections of
// fibers.
package nettest

import (
	"context"
	"net"
	"testing"
	"time"

	"example.com/fiberrt/bindings/go/fiberrt"
	"golang.org/x/net/nettest"
)

// Returns the two ends of a TCP or Unix connection.
func pair(network string) (a, b *fiberrt.Conn, stop func(), err error) {
	there, err := nettest.NewLocalListener(network)
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := fiberrt.NewListener(there)
	if err != nil {
		return nil, nil, nil, err
	}
	defer l.Close()
	a, err = fiberrt.Dial(context.Background(), network, l.Addr().String())
	if err != nil {
		return nil, nil, nil, err
	}
	b, err = l.AcceptConn()
	if err != nil {
		a.Close()
		return nil, nil, nil, err
	}
	return a, b, func() { a.Close(); b.Close() }, nil
}

func TestConnOfGoroutines(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) { return pair(network) })
		})
	}
}

// The tests call from goroutines, so each call is made in a new fiber.
func TestConnOfFibers(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			r := newRunner()
			defer r.stop()
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				a, b, stop, err := pair(network)
				return fibers{a, r}, fibers{b, r}, stop, err
			})
		})
	}
}

// A Run that makes a fiber for each function that it gets.
type runner struct {
	functions chan func(f *fiberrt.Fiber)
	ctx       context.Context
	cancel    context.CancelFunc
	ended     chan error
}

func newRunner() *runner {
	r := &runner{functions: make(chan func(*fiberrt.Fiber)), ended: make(chan error)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	go func() {
		r.ended <- fiberrt.Run(r.ctx, func(f *fiberrt.Fiber) {
			for {
				fn, _, err := fiberrt.Recv(f, r.functions)
				if err != nil {
					return
				}
				f.Spawn(fn)
			}
		})
	}()
	return r
}

func (r *runner) stop() {
	r.cancel()
	if err := <-r.ended; err != context.Canceled {
		panic(err)
	}
}

// Calls fn in a fiber. Does nothing after stop, when goroutines that the tests have left may still call.
func (r *runner) call(fn func(f *fiberrt.Fiber)) {
	done := make(chan struct{})
	select {
	case r.functions <- func(f *fiberrt.Fiber) {
		defer close(done)
		fn(f)
	}:
	case <-r.ctx.Done():
		return
	}
	<-done // or never, if fn was cancelled before its turn
}

// A connection whose every call is made in a fiber.
type fibers struct {
	conn *fiberrt.Conn
	r    *runner
}

func (c fibers) Read(p []byte) (n int, err error) {
	err = net.ErrClosed
	c.r.call(func(f *fiberrt.Fiber) { n, err = c.conn.On(f).Read(p) })
	return n, err
}

func (c fibers) Write(p []byte) (n int, err error) {
	err = net.ErrClosed
	c.r.call(func(f *fiberrt.Fiber) { n, err = c.conn.On(f).Write(p) })
	return n, err
}

func (c fibers) Close() (err error) {
	c.r.call(func(f *fiberrt.Fiber) { err = c.conn.On(f).Close() })
	return err
}

func (c fibers) LocalAddr() net.Addr  { return c.conn.LocalAddr() }
func (c fibers) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

func (c fibers) SetDeadline(t time.Time) (err error) {
	c.r.call(func(f *fiberrt.Fiber) { err = c.conn.On(f).SetDeadline(t) })
	return err
}

func (c fibers) SetReadDeadline(t time.Time) (err error) {
	c.r.call(func(f *fiberrt.Fiber) { err = c.conn.On(f).SetReadDeadline(t) })
	return err
}

func (c fibers) SetWriteDeadline(t time.Time) (err error) {
	c.r.call(func(f *fiberrt.Fiber) { err = c.conn.On(f).SetWriteDeadline(t) })
	return err
}
