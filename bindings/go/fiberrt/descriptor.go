// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// The common part of connections and listeners: a descriptor that is closed when its last user has left. Each direction
// has a turn, a deadline and at most one waiting party.

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
	reading side     // also for accepts
	writing side

	mu     sync.Mutex
	users  int // calls in progress
	closed bool
	gone   chan struct{} // closed when fd is closed
	onGone func()        // or nil
}

// One direction of a descriptor.
type side struct {
	turn     chan struct{} // of capacity 1; full while a caller has the turn
	deadline time.Time     // zero: none
	waits    party         // the caller that has the turn and waits in the cord, or nil
}

// The caller of an operation: a goroutine or a fiber.
type caller interface {
	take(turn chan struct{}) error  // sends to the channel, waiting as a caller of its kind does
	await(gone chan struct{}) error // waits until the channel is closed
	attempt(code uint32, fd int, p []byte, mode int32) int64
	party() (party, int64)
	why(call string, result int64) error
}

// A caller that waits for an operation which could not be made at once.
type party interface {
	transfer(code uint32, fd int, p []byte, mode int32, timeoutNs int64) int64
	kick() // ends the present transfer, or else the next one, with -EINTR; the caller holds descriptor.mu
}

func newDescriptor(fd int, network string, local, remote net.Addr) *descriptor {
	return &descriptor{
		fd: fd, network: network, local: local, remote: remote, gone: make(chan struct{}),
		reading: side{turn: make(chan struct{}, 1)}, writing: side{turn: make(chan struct{}, 1)},
	}
}

// Calls fn, which makes operations in one direction, with the turn of that direction.
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

// Makes one operation, and repeats it while it returns without a result. The error names the call.
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

// Notes the party that waits from now on. Fails if the descriptor is closed or the deadline has passed.
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

// Sets the deadlines of the sides, and ends their present waits, which then begin again with the new deadline.
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

// Calls fn with the descriptor, which stays open until fn returns.
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

// Closes fd if the descriptor is closed and has no users. The caller holds mu.
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
