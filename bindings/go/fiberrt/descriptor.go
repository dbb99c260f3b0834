// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// What connections and listeners have in common: a descriptor that is closed when nobody uses it any more, with a turn, a
// deadline and a waiting party for each direction.

package fiberrt

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"example.com/fiberrt/bindings/go/internal/raw"
)

type descriptor struct {
	fd      int
	network string
	local   net.Addr
	remote  net.Addr // nil: a listener's
	reading side     // accepting, too
	writing side

	mu     sync.Mutex
	users  int // calls that are in it
	closed bool
	gone   chan struct{} // closed when fd is
	onGone func()        // or nil
}

// One direction.
type side struct {
	turn     chan struct{} // of capacity 1; full: somebody has it
	deadline time.Time     // zero: none
	waits    party         // who has the turn and waits in the cord, or nil
}

// Who makes operations: a goroutine, or a fiber.
type caller interface {
	take(turn chan struct{}) error  // sends to it, as a caller of its kind does
	await(gone chan struct{}) error // until it is closed
	attempt(code uint32, fd int, p []byte, mode int32) int64
	party() (party, int64)
	why(call string, result int64) error
}

// Who waits for an operation that could not be made at once.
type party interface {
	transfer(code uint32, fd int, p []byte, mode int32, timeoutNs int64) int64
	kick() // ends that early, with -EINTR, or the next one; with descriptor.mu held
}

func newDescriptor(fd int, network string, local, remote net.Addr) *descriptor {
	return &descriptor{
		fd: fd, network: network, local: local, remote: remote, gone: make(chan struct{}),
		reading: side{turn: make(chan struct{}, 1)}, writing: side{turn: make(chan struct{}, 1)},
	}
}

// Makes operations in one direction, until fn is content with what has come of them.
func (d *descriptor) use(by caller, s *side, fn func() error) error {
	if !d.acquire() {
		return net.ErrClosed
	}
	defer d.release()
	if err := by.take(s.turn); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	return fn()
}

// One operation, again and again until it has come to something. The error names what was called.
func (d *descriptor) transfer(by caller, s *side, call string, code uint32, p []byte, mode int32) (int, error) {
	if _, err := d.enter(s, nil); err != nil {
		return 0, err
	}
	result := by.attempt(code, d.fd, p, mode)
	if result == -int64(syscall.EAGAIN) {
		var err error
		if result, err = d.wait(by, s, code, p, mode); err != nil {
			return 0, err
		}
	}
	if result < 0 {
		return 0, by.why(call, result)
	}
	return int(result), nil
}

func (d *descriptor) wait(by caller, s *side, code uint32, p []byte, mode int32) (int64, error) {
	w, result := by.party()
	if result < 0 {
		return result, nil
	}
	for {
		deadline, err := d.enter(s, w)
		if err != nil {
			return 0, err
		}
		timeoutNs := raw.Forever
		if !deadline.IsZero() {
			timeoutNs = max(0, time.Until(deadline).Nanoseconds())
		}
		result = w.transfer(code, d.fd, p, mode, timeoutNs)
		d.leave(s)
		switch {
		case result == -int64(syscall.EINTR):
		case result == -int64(syscall.ETIMEDOUT) && !deadline.IsZero() && !time.Now().Before(deadline):
		default: // a connection's own ETIMEDOUT, too
			return result, nil
		}
	}
}

// Says who waits from now on, unless it is too late for that.
func (d *descriptor) enter(s *side, w party) (deadline time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return s.deadline, net.ErrClosed
	case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
		return s.deadline, os.ErrDeadlineExceeded
	}
	s.waits = w
	return s.deadline, nil
}

func (d *descriptor) leave(s *side) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.waits = nil
}

func (s *side) kick() {
	if s.waits != nil {
		s.waits.kick()
	}
}

// Sets the deadlines of the sides, which may be waiting.
func (d *descriptor) setDeadline(t time.Time, sides ...*side) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return net.ErrClosed
	}
	for _, s := range sides {
		s.deadline = t
		s.kick()
	}
	return nil
}

// Calls fn with the descriptor, which is not closed meanwhile.
func (d *descriptor) control(fn func(fd int) error) error {
	if !d.acquire() {
		return net.ErrClosed
	}
	defer d.release()
	return fn(d.fd)
}

func (d *descriptor) acquire() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.users++
	return true
}

func (d *descriptor) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users--
	d.end()
}

// Closes fd when it is time for that.
func (d *descriptor) end() {
	if d.closed && d.users == 0 {
		syscall.Close(d.fd)
		if d.onGone != nil {
			d.onGone()
		}
		close(d.gone)
	}
}

func (d *descriptor) close(by caller) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return net.ErrClosed
	}
	d.closed = true
	d.reading.kick()
	d.writing.kick()
	d.end()
	d.mu.Unlock()
	return by.await(d.gone)
}
