// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func listen(t testing.TB) *Listener {
	t.Helper()
	l, err := Listen(background, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Returns the two ends of a connection.
func pair(t testing.TB) (a, b *Conn) {
	t.Helper()
	l := listen(t)
	a, err := Dial(background, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.AcceptConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// Waits until the party of a side waits in the cord.
func waiting(t testing.TB, d *descriptor, s *side) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		there := s.waits != nil
		d.mu.Unlock()
		if there {
			return
		}
		if time.Now().After(end) {
			t.Fatal("nobody waits")
		}
	}
}

// Calls fn on a goroutine, and in a fiber of a separate Run.
var kindsOfCallers = map[string]func(t *testing.T, c *Conn, fn func(c net.Conn)){
	"goroutine": func(_ *testing.T, c *Conn, fn func(c net.Conn)) { fn(c) },
	"fiber": func(t *testing.T, c *Conn, fn func(c net.Conn)) {
		if err := Run(background, func(f *Fiber) { fn(c.On(f)) }); err != nil {
			t.Error(err)
		}
	},
}

func withCallers(t *testing.T, test func(t *testing.T, a, b *Conn, with func(c *Conn, fn func(c net.Conn)))) {
	for name, with := range kindsOfCallers {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			test(t, a, b, func(c *Conn, fn func(c net.Conn)) { with(t, c, fn) })
		})
	}
}

func TestConnEcho(t *testing.T) {
	withCallers(t, func(t *testing.T, a, b *Conn, with func(*Conn, func(net.Conn))) {
		sent := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
		var both sync.WaitGroup
		both.Add(2)
		go func() {
			defer both.Done()
			with(b, func(c net.Conn) {
				if n, err := io.Copy(c, c); n != int64(len(sent)) || err != nil {
					t.Error(n, err)
				}
				c.Close()
			})
		}()
		go func() {
			defer both.Done()
			if n, err := a.Write(sent); n != len(sent) || err != nil {
				t.Error(n, err)
			}
			if err := a.CloseWrite(); err != nil {
				t.Error(err)
			}
		}()
		got, err := io.ReadAll(a)
		if !bytes.Equal(got, sent) || err != nil {
			t.Error(len(got), err)
		}
		both.Wait()
	})
}

func TestConnDeadlines(t *testing.T) {
	withCallers(t, func(t *testing.T, a, _ *Conn, with func(*Conn, func(net.Conn))) {
		refused := func(err error) {
			t.Helper()
			var timeout net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Error(err)
			}
		}
		with(a, func(c net.Conn) {
			for _, d := range []time.Duration{-time.Hour, 0, time.Millisecond, 30 * time.Millisecond} {
				began := time.Now()
				c.SetReadDeadline(began.Add(d))
				n, err := c.Read(make([]byte, 1))
				refused(err)
				if n != 0 || time.Since(began) < d {
					t.Error(n, time.Since(began))
				}
			}
			c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			_, err := c.Write(make([]byte, 64<<20))
			refused(err)
			c.SetDeadline(time.Time{})
		})
		// Another goroutine sets the deadline while the call waits: earlier, then later and earlier again.
		for range 20 {
			ended := make(chan error)
			go with(a, func(c net.Conn) {
				_, err := c.Read(make([]byte, 1))
				ended <- err
			})
			waiting(t, a.descriptor, &a.reading)
			a.SetReadDeadline(time.Now().Add(time.Hour))
			a.SetReadDeadline(time.Time{})
			a.SetReadDeadline(time.Now().Add(-time.Second))
			refused(<-ended)
			a.SetReadDeadline(time.Time{})
		}
	})
}

func TestConnEnds(t *testing.T) {
	withCallers(t, func(t *testing.T, a, b *Conn, with func(*Conn, func(net.Conn))) {
		b.Write([]byte("x"))
		b.CloseWrite()
		with(a, func(c net.Conn) {
			buffer := make([]byte, 8)
			if n, err := c.Read(nil); n != 0 || err != nil {
				t.Error(n, err)
			}
			if n, err := c.Read(buffer); n != 1 || err != nil {
				t.Error(n, err)
			}
			if n, err := c.Read(buffer); n != 0 || err != io.EOF {
				t.Error(n, err)
			}
		})
		b.Control(func(fd uintptr) {
			syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
		})
		b.Close()
		with(a, func(c net.Conn) {
			_, err := c.Write([]byte("x"))
			for err == nil {
				_, err = c.Write([]byte("x"))
			}
			var operation *net.OpError
			if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &operation) {
				t.Error(err)
			}
		})
	})
}

func TestConnCloseWhileItIsUsed(t *testing.T) {
	withCallers(t, func(t *testing.T, _, _ *Conn, with func(*Conn, func(net.Conn))) {
		for range 20 {
			a, b := pair(t)
			ended := make(chan error)
			for range 3 { // one call waits in the cord, the others for their turn
				go with(a, func(c net.Conn) {
					_, err := c.Read(make([]byte, 1))
					ended <- err
				})
			}
			waiting(t, a.descriptor, &a.reading)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			for range 3 {
				if err := <-ended; !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			}
			with(a, func(c net.Conn) {
				_, readErr := c.Read(make([]byte, 1))
				_, writeErr := c.Write(make([]byte, 1))
				for _, err := range []error{readErr, writeErr, c.Close(), c.SetDeadline(time.Now()), a.CloseWrite()} {
					if !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
				}
			})
			if _, err := b.Read(make([]byte, 1)); err != io.EOF {
				t.Error(err)
			}
			b.Close()
		}
	})
}

// A fiber closes the connection that another fiber of the same Run waits for.
func TestConnCloseByAnotherFiber(t *testing.T) {
	a, _ := pair(t)
	run(t, func(f *Fiber) {
		child := f.Spawn(func(f *Fiber) {
			if _, err := a.On(f).Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
		for a.users == 0 {
			f.Reschedule()
		}
		f.Reschedule()
		f.Cancel() // it closes nevertheless
		if err := a.On(f).Close(); err != nil {
			t.Error(err)
		}
		if !child.Ended() && child.cancelled {
			t.Error("the other was cancelled")
		}
	})
}

func TestConnCancelledFiber(t *testing.T) {
	a, b := pair(t)
	cause := errors.New("no more")
	run(t, func(f *Fiber) {
		child := f.Spawn(func(f *Fiber) {
			_, err := a.On(f).Read(make([]byte, 1))
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if _, err = a.On(f).Write([]byte("x")); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		for a.users == 0 {
			f.Reschedule()
		}
		child.Cancel()
		f.Join(child)
		// The connection has not changed.
		ctx, cancel := context.WithCancelCause(background)
		time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
		f.WithContext(ctx, func() error {
			if _, err := a.On(f).Read(make([]byte, 1)); !errors.Is(err, cause) {
				t.Error(err)
			}
			return nil
		})
		b.Write([]byte("x"))
		if n, err := a.On(f).Read(make([]byte, 1)); n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}

func TestConnUsedElsewhere(t *testing.T) {
	a, _ := pair(t)
	l := listen(t)
	var view *FiberConn
	var listener *FiberListener
	refused := func() {
		t.Helper()
		_, readErr := view.Read(make([]byte, 1))
		_, writeErr := view.Write([]byte("x"))
		_, acceptErr := listener.Accept()
		for i, err := range []error{
			readErr, writeErr, acceptErr, view.Close(), listener.Close(), view.CloseWrite(), view.SetDeadline(time.Now()),
			view.SetReadDeadline(time.Now()), view.SetWriteDeadline(time.Now()),
		} {
			if !errors.Is(err, ErrNotTheFiber) {
				t.Error(i, err)
			}
		}
	}
	run(t, func(f *Fiber) {
		view, listener = a.On(f), l.On(f)
		Await(f, func(context.Context) (int, error) { refused(); return 0, nil })
		f.Join(f.Spawn(func(f *Fiber) { refused() }))
		if view.LocalAddr() != a.LocalAddr() || view.RemoteAddr() != a.RemoteAddr() {
			t.Error(view.LocalAddr(), view.RemoteAddr())
		}
	})
	refused()
	run(t, func(*Fiber) { refused() })
}

// Deadlines set while a fiber may or may not wait for its connection do not end any other wait of the fiber.
func TestConnDeadlinesEndNoOtherWait(t *testing.T) {
	a, b := pair(t)
	var over atomic.Bool
	setting := make(chan struct{})
	go func() {
		defer close(setting)
		for !over.Load() {
			a.SetReadDeadline(time.Now().Add(time.Hour))
		}
	}()
	go func() {
		for !over.Load() {
			b.Write([]byte("x"))
		}
		b.Close()
	}()
	run(t, func(f *Fiber) {
		other := f.Spawn(func(f *Fiber) {
			for !over.Load() {
				f.Reschedule()
			}
		})
		c := a.On(f)
		for range 2000 {
			if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Error(n, err)
				break
			}
			if err := f.Sleep(0); err != nil {
				t.Error(err)
				break
			}
			if err := f.Reschedule(); err != nil {
				t.Error(err)
				break
			}
		}
		over.Store(true)
		f.Join(other)
		c.Close()
	})
	<-setting
}

func TestListener(t *testing.T) {
	for _, network := range []string{"tcp", "tcp4", "tcp6", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := map[string]string{"tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "socket")}[network]
			if address == "" {
				address = "127.0.0.1:0"
			}
			l, err := Listen(background, network, address)
			if network == "tcp6" && err != nil {
				t.Skip("there is no IPv6:", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error)
			go func() {
				_, err := l.Accept()
				ended <- err
			}()
			waiting(t, l.descriptor, &l.reading)
			c, err := Dial(background, network, l.Addr().String())
			if err != nil || <-ended != nil {
				t.Fatal(err)
			}
			if c.RemoteAddr().String() != l.Addr().String() {
				t.Error(c.RemoteAddr(), l.Addr())
			}
			c.Close()
			run(t, func(f *Fiber) {
				child := f.Spawn(func(f *Fiber) {
					c, err := l.On(f).Accept()
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					c.On(f).Write([]byte("hello"))
				})
				c, err := f.Dial(network, l.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if got, err := io.ReadAll(c); string(got) != "hello" || err != nil {
					t.Error(string(got), err)
				}
				f.Join(child)
			})
			l.SetDeadline(time.Now().Add(5 * time.Millisecond))
			if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			l.SetDeadline(time.Time{})
			go func() {
				_, err := l.Accept()
				ended <- err
			}()
			waiting(t, l.descriptor, &l.reading)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if _, err := Dial(background, network, l.Addr().String()); err == nil {
				t.Error("there is still a listener")
			}
			l, err = Listen(background, network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		})
	}
}

func TestConnRefusesOtherDescriptors(t *testing.T) {
	udp, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewConn(udp); !errors.As(err, new(net.UnknownNetworkError)) {
		t.Error(err)
	}
	here, there := net.Pipe()
	defer there.Close()
	if _, err := NewConn(here); !errors.As(err, new(net.UnknownNetworkError)) {
		t.Error(err)
	}
	if _, err := Dial(background, "nonsense", "x"); err == nil {
		t.Error("there is no such network")
	}
	if _, err := Listen(background, "udp", "127.0.0.1:0"); err == nil {
		t.Error("there are no connections")
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	if _, err := Dial(ctx, "tcp", "127.0.0.1:9"); err == nil {
		t.Error("the context was done")
	}
}

func TestHTTP(t *testing.T) {
	l := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d %s", r.Method, len(body), r.URL.Path)
	})}
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return Dial(ctx, network, address)
		},
	}}
	var all sync.WaitGroup
	for i := range 50 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 20 {
				response, err := client.Post(fmt.Sprintf("http://%s/%d", l.Addr(), i), "text/plain",
					strings.NewReader(strings.Repeat("x", 1000*i)))
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				if want := fmt.Sprintf("POST %d /%d", 1000*i, i); string(body) != want || err != nil {
					t.Error(string(body), err)
				}
			}
		}()
	}
	all.Wait()
	client.CloseIdleConnections()
	if err := server.Shutdown(background); err != nil {
		t.Error(err)
	}
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// Many connections of fibers leave neither descriptors nor fibers behind.
func TestManyConns(t *testing.T) {
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	a, _ := pair(t)
	a.SetReadDeadline(time.Now().Add(time.Millisecond))
	a.Read(make([]byte, 1)) // starts the cord for I/O, which stays
	before := descriptors()
	const count, rounds = 200, 20
	run(t, func(f *Fiber) {
		l, err := Listen(background, "tcp", "127.0.0.1:0")
		if err != nil {
			t.Error(err)
			return
		}
		group := f.Group()
		group.Go(func(f *Fiber) error {
			for range count {
				c, err := l.On(f).Accept()
				if err != nil {
					return err
				}
				group.Go(func(f *Fiber) error {
					defer c.On(f).Close()
					_, err := io.Copy(c.On(f), c.On(f))
					return err
				})
			}
			return l.On(f).Close()
		})
		for i := range count {
			group.Go(func(f *Fiber) error {
				c, err := f.Dial("tcp", l.Addr().String())
				if err != nil {
					return err
				}
				defer c.Close()
				for round := range rounds {
					sent := fmt.Sprintf("%d of %d", round, i)
					if _, err := c.Write([]byte(sent)); err != nil {
						return err
					}
					got := make([]byte, len(sent))
					if _, err := io.ReadFull(c, got); string(got) != sent || err != nil {
						return fmt.Errorf("%q instead of %q: %w", got, sent, err)
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	// The threads of Runs end soon after the Runs.
	for end := time.Now().Add(time.Minute); descriptors() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors more", descriptors()-before)
		}
	}
}
