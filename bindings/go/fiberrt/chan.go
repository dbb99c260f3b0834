// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Recv receives from a Go channel while other fibers run. ok is false if the channel is closed and empty. An error
// means that f's wait ended early, and nothing was received.
func Recv[T any](f *Fiber, ch <-chan T) (value T, ok bool, err error) {
	f.check("Recv")
	if err = f.pace("Recv"); err != nil {
		return value, false, err
	}
	select {
	case value, ok = <-ch:
		if cap(ch) > 0 {
			f.hub.bufferChanged(channelOf(ch), receives)
		}
		return value, ok, nil
	default:
	}
	r, _ := f.receiver.(*receiver[T]) // from f's last wait
	if r == nil {
		r = new(receiver[T])
		f.receiver = r
	}
	*r = receiver[T]{chanWait: newChanWait(f, channelOf(ch), receives, cap(ch), &r.value), ch: ch}
	err = r.wait(r)
	value, ok = r.value, r.ok || r.met
	*r = receiver[T]{}
	return value, ok, err
}

// Send sends on a Go channel while other fibers run. An error means that f's wait ended early, and nothing was sent. On
// a closed channel Send panics, as Go does.
func Send[T any](f *Fiber, ch chan<- T, value T) error {
	f.check("Send")
	if err := f.pace("Send"); err != nil {
		return err
	}
	select {
	case ch <- value:
		if cap(ch) > 0 {
			f.hub.bufferChanged(channelOf(ch), sends)
		}
		return nil
	default:
	}
	s, _ := f.sender.(*sender[T])
	if s == nil {
		s = new(sender[T])
		f.sender = s
	}
	*s = sender[T]{chanWait: newChanWait(f, channelOf(ch), sends, cap(ch), &s.value), ch: ch, value: value}
	err := s.wait(s)
	*s = sender[T]{}
	return err
}

// Exchanges the values of a wait with its channel, or with another wait.
type exchanger interface {
	try() bool                       // exchanges a value if that needs no wait
	meet(partner *chanWait)          // exchanges a value with a fiber that waits on the other side
	block(stop <-chan struct{}) bool // exchanges a value, on a helper; false if stop came first
}

type receiver[T any] struct {
	chanWait
	ch    <-chan T
	value T
	ok    bool
}

func (r *receiver[T]) try() bool {
	select {
	case r.value, r.ok = <-r.ch:
		return true
	default:
		return false
	}
}

func (r *receiver[T]) meet(partner *chanWait) { r.value, r.ok = *partner.slot.(*T), true }

func (r *receiver[T]) block(stop <-chan struct{}) bool {
	select {
	case r.value, r.ok = <-r.ch:
		return true
	case <-stop:
		return false
	}
}

type sender[T any] struct {
	chanWait
	ch    chan<- T
	value T
}

func (s *sender[T]) try() bool {
	select {
	case s.ch <- s.value:
		return true
	default:
		return false
	}
}

func (s *sender[T]) meet(partner *chanWait) { *partner.slot.(*T) = s.value }

func (s *sender[T]) block(stop <-chan struct{}) bool {
	select {
	case s.ch <- s.value:
		return true
	case <-stop:
		return false
	}
}

// Returns the address of a channel, which its sending and its receiving side share; nil for a nil channel.
func channelOf[C any](ch C) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&ch)) }

type chanSide int

const (
	receives chanSide = iota
	sends
)

func (side chanSide) other() chanSide { return 1 - side }

func (side chanSide) String() string { return [...]string{"Recv", "Send"}[side] }

// Rounds of the hub for which a fiber waits only for the Run's other fibers, before a goroutine blocks for it.
const roundsOfChanWait = 16

// The wait of a fiber in Recv or Send. It first waits for the Run's other fibers: a fiber that arrives at the other
// side of an unbuffered channel exchanges the value with it, without a goroutine. When no fiber is runnable, or the
// wait has lasted for many rounds, a helper waits instead: a goroutine that blocks on the channel.
type chanWait struct {
	fiber    *Fiber
	channel  unsafe.Pointer
	side     chanSide
	buffered bool
	slot     any // a pointer to the value to send, or to the place for the received value

	lines         *chanLines // of its channel, while it waits
	before, after *chanWait  // in its line
	enqueued      bool       // it is in hub.chanWaits
	place         int        // its index there
	round         uint64     // the round in which the wait began
	met           bool       // a fiber on the other side has exchanged the value
	expired       bool       // the other fibers have had their turns
	helper        *helper    // the helper that waits instead, or nil
	calledBack    bool       // the helper was told to stop, because a fiber came to the other side
}

func newChanWait(f *Fiber, channel unsafe.Pointer, side chanSide, capacity int, slot any) chanWait {
	return chanWait{fiber: f, channel: channel, side: side, buffered: capacity > 0, slot: slot, round: f.hub.round}
}

// The fibers of a Run that wait on one channel.
type chanLines struct {
	waiting [2]chanLine // by side: waits for the other fibers
	helped  [2]chanLine // by side: waits with a helper
	coming  [2]int      // by side: the number of waits whose helper was called back and that have not run since
}

func (l *chanLines) empty() bool {
	return l.waiting[receives].first == nil && l.waiting[sends].first == nil && l.helped[receives].first == nil &&
		l.helped[sends].first == nil
}

// A queue of waits, the oldest first.
type chanLine struct{ first, last *chanWait }

func (l *chanLine) push(w *chanWait) {
	w.before, w.after = l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.after = w
	}
	l.last = w
}

func (l *chanLine) remove(w *chanWait) {
	if w.before == nil {
		l.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		l.last = w.before
	} else {
		w.after.before = w.before
	}
	w.before, w.after = nil, nil
}

// Waits until the value is exchanged. The caller has already tried to exchange it at once.
func (w *chanWait) wait(e exchanger) error {
	f, h := w.fiber, w.fiber.hub
	if w.channel == nil {
		return w.waitForEnd()
	}
	for first := true; ; first = false {
		if !first && f.pending.Load() {
			if err := f.ask(w.side.String(), raw.OpReschedule); err != nil {
				return err
			}
		}
		// Try the channel first: only that detects a closed channel. From here to enqueue no other fiber runs.
		if !first && e.try() {
			if w.buffered {
				h.bufferChanged(w.channel, w.side)
			}
			return nil
		}
		lines := h.lines[w.channel]
		if lines != nil {
			if partner := lines.waiting[w.side.other()].first; partner != nil {
				h.resume(partner)
				if !w.buffered {
					e.meet(partner)
					partner.met = true
					return nil
				}
			}
		}
		if w.expired && !h.callBack(lines, w.side.other()) {
			if done, err := w.help(e); done || err != nil {
				return err
			}
			w.round, w.expired = h.round, false
			continue
		}
		h.enqueue(w)
		f.giveWay(struct{}{})
		if w.met {
			return nil
		}
		if h.broken {
			if w.enqueued {
				h.remove(w)
			}
			return ErrStopped
		}
	}
}

// Waits on a nil channel, until the wait ends early.
func (w *chanWait) waitForEnd() error {
	defer addToDump(w)()
	for {
		if err := w.fiber.park(w.side.String(), inNilChan[w.side], 0); err != nil {
			return err
		}
	}
}

// Has a helper wait. Returns false and no error if the helper was called back, or was to send on a closed channel.
func (w *chanWait) help(e exchanger) (done bool, err error) {
	f, h := w.fiber, w.fiber.hub
	help := h.takeHelper()
	w.helper = help
	lines := h.linesOf(w.channel)
	lines.helped[w.side].push(w)
	defer addToDump(w)()
	h.handOff = true
	h.helperJobs++
	help.work <- helperJob{e, f.handle}
	ended := false
	for !ended {
		err = f.park(w.side.String(), inChan[w.side], uint64(uintptr(w.channel)))
		if ended = help.poll(); !ended && err != nil {
			help.stop()
			done, ended = <-help.done, true
		} else if ended {
			done = help.helped
		}
	}
	lines.helped[w.side].remove(w)
	if w.calledBack {
		lines.coming[w.side]--
		w.calledBack = false
	}
	h.forget(w.channel, lines)
	w.helper = nil
	h.putHelper(help)
	if done {
		err = nil
	}
	return done, err
}

func (h *hub) linesOf(channel unsafe.Pointer) *chanLines {
	lines := h.lines[channel]
	if lines == nil {
		if n := len(h.freeLines); n > 0 {
			lines = h.freeLines[n-1]
			h.freeLines = h.freeLines[:n-1]
		} else {
			lines = new(chanLines)
		}
		h.lines[channel] = lines
	}
	return lines
}

func (h *hub) forget(channel unsafe.Pointer, lines *chanLines) {
	if lines.empty() {
		delete(h.lines, channel)
		if len(h.freeLines) < linesKept {
			h.freeLines = append(h.freeLines, lines)
		}
	}
}

// Puts w among the fibers that wait for other fibers.
func (h *hub) enqueue(w *chanWait) {
	w.lines = h.linesOf(w.channel)
	w.lines.waiting[w.side].push(w)
	w.enqueued, w.place = true, len(h.chanWaits)
	h.chanWaits = append(h.chanWaits, w)
}

func (h *hub) remove(w *chanWait) {
	w.lines.waiting[w.side].remove(w)
	h.forget(w.channel, w.lines)
	w.enqueued = false
	last := h.chanWaits[len(h.chanWaits)-1]
	h.chanWaits[w.place], last.place = last, w.place
	h.chanWaits[len(h.chanWaits)-1] = nil
	h.chanWaits = h.chanWaits[:len(h.chanWaits)-1]
}

// Gives a fiber that waits for other fibers a turn.
func (h *hub) resume(w *chanWait) {
	h.remove(w)
	h.ready.push(w.fiber)
}

// A fiber has sent to or received from a buffer: if another fiber waits on the other side, it tries again.
func (h *hub) bufferChanged(channel unsafe.Pointer, side chanSide) {
	if len(h.lines) == 0 {
		return
	}
	if lines := h.lines[channel]; lines != nil {
		if partner := lines.waiting[side.other()].first; partner != nil {
			h.resume(partner)
		}
	}
}

// Calls a helper on that side of the channel back, so that its fiber meets the fiber on the other side. Returns whether
// a fiber is coming.
func (h *hub) callBack(lines *chanLines, side chanSide) bool {
	if lines == nil {
		return false
	}
	if lines.coming[side] > 0 {
		return true
	}
	w := lines.helped[side].first
	if w == nil {
		return false
	}
	w.calledBack = true
	lines.coming[side]++
	w.helper.stop()
	return true
}

// Gives fibers that wait for other fibers a turn, in which they ask for helpers: all fibers, or those that have waited
// long.
func (h *hub) expireChanWaits(all bool) {
	for i := 0; i < len(h.chanWaits); {
		w := h.chanWaits[i]
		switch {
		case w.lines.coming[w.side.other()] > 0, !all && h.round-w.round < roundsOfChanWait:
			i++
		default:
			w.expired = true
			h.resume(w) // moves another wait to this index
		}
	}
}

const (
	linesKept   = 64  // the most chanLines without a wait that a hub keeps
	helpersKept = 256 // the most helpers without a job that a hub keeps
	helperLooks = 200 // how often a helper looks for its next job before it sleeps
)

// A goroutine that blocks on channels for the fibers of one Run, one after the other.
type helper struct {
	work   chan helperJob
	cease  chan struct{}
	done   chan bool // whether the exchange was made
	helped bool      // the value received from done
}

type helperJob struct {
	exchanger
	fiber raw.Fiber // the fiber to wake at the end
}

func (h *hub) takeHelper() *helper {
	if n := len(h.helpers); n > 0 {
		help := h.helpers[n-1]
		h.helpers = h.helpers[:n-1]
		return help
	}
	help := &helper{make(chan helperJob, 1), make(chan struct{}, 1), make(chan bool, 1), false}
	h.helpersNew++
	h.helping.Add(1)
	go func() {
		defer h.helping.Done()
		for {
			job, ok := help.next(h)
			if !ok {
				return
			}
			help.done <- help.run(job)
			raw.Wakeup(job.fiber)
		}
	}()
	return help
}

// Returns the next job; ok is false at the end of the Run. One helper of the hub spins for a while before it sleeps,
// and lets other goroutines run meanwhile: a job that comes in this time needs no wakeup of a thread.
func (help *helper) next(h *hub) (job helperJob, ok bool) {
	if !h.oneProc && h.helperLooks.CompareAndSwap(false, true) {
		for range helperLooks {
			select {
			case job, ok = <-help.work:
				h.helperLooks.Store(false)
				return job, ok
			default:
				runtime.Gosched()
			}
		}
		h.helperLooks.Store(false)
	}
	job, ok = <-help.work
	return job, ok
}

func (h *hub) putHelper(help *helper) {
	select {
	case <-help.cease: // a stop request that came after its job had ended
	default:
	}
	if len(h.helpers) < helpersKept {
		h.helpers = append(h.helpers, help)
	} else {
		close(help.work)
	}
}

// Ends the helpers. None of them may have a job.
func (h *hub) endHelpers() {
	for _, help := range h.helpers {
		close(help.work)
	}
	h.helpers = nil
}

// Returns false on a panic: the fiber then tries again and panics itself, because its channel stays closed.
func (help *helper) run(job helperJob) bool {
	defer func() { _ = recover() }()
	return job.block(help.cease)
}

// Ends the helper's job, if it has not ended.
func (help *helper) stop() {
	select {
	case help.cease <- struct{}{}:
	default:
	}
}

// Tells whether the job has ended.
func (help *helper) poll() bool {
	select {
	case help.helped = <-help.done:
		return true
	default:
		return false
	}
}

var (
	dumpedMutex sync.Mutex
	dumped      = map[*chanWait]time.Time{} // the waits that Dump reports, and when each began
)

// Has Dump report a wait until the returned function is called.
func addToDump(w *chanWait) (remove func()) {
	dumpedMutex.Lock()
	defer dumpedMutex.Unlock()
	dumped[w] = time.Now()
	return func() {
		dumpedMutex.Lock()
		defer dumpedMutex.Unlock()
		delete(dumped, w)
	}
}

// Returns a line for each fiber that waits on a channel while no fiber of the same Run waits at the other end.
func dumpChanWaits() string {
	dumpedMutex.Lock()
	defer dumpedMutex.Unlock()
	var lines []string
	for w, since := range dumped {
		served := "no fiber of the same Run is at the other end"
		if w.channel == nil {
			served = "nil: the wait never ends"
		}
		lines = append(lines, fmt.Sprintf("fiber 0x%016x waits in %s for %.1f s, on a channel of %s at %p: %s\n", w.fiber.handle,
			w.side, time.Since(since).Seconds(), reflect.TypeOf(w.slot).Elem(), w.channel, served))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
