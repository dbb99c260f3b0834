// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"context"

	"example.com/fiberrt/bindings/go/internal/raw"
	"example.com/fiberrt/bindings/go/internal/self"
)

// Group is a group of fibers that work on parts of one task: the first failure cancels the others. Only fibers of one
// Run may use a group, and only the fiber that made it may wait for it.
type Group struct {
	owner    *Fiber
	children []*Fiber // fibers that have not ended
	limit    int
	err      error
	stopped  bool
}

// Group makes a group. Only f may call its [Group.Wait].
func (f *Fiber) Group() *Group {
	f.check("Group")
	return &Group{owner: f}
}

// Go makes a fiber that runs fn. The group fails if fn returns an error, panics ([*PanicError]) or calls runtime.Goexit
// ([ErrGoexit]), or if the fiber could not be made. In a group that has failed, fn never runs. Any fiber of the Run may
// call Go, also a fiber of the group.
func (g *Group) Go(fn func(f *Fiber) error) {
	h := g.owner.hub
	if h.turnOf == nil || self.G() != h.turnOf.g || h.turnOf.callbacks > 0 {
		panic("fiberrt: Group.Go by a goroutine that is not a fiber of the group's Run")
	}
	f := h.spawn(func(f *Fiber) { f.verdict = fn(f) }, entryOf(fn))
	if f.ended.Load() {
		g.failed(f.outcome)
		return
	}
	f.group, f.place = g, len(g.children)
	g.children = append(g.children, f)
	if g.stopped {
		f.cancel(g.err)
	}
}

// Wait waits until all fibers of the group have ended, and returns the first failure. If the owner's wait ends early,
// Wait cancels the fibers and waits for them. It then returns the error of the owner's wait, unless a fiber had failed
// before.
func (g *Group) Wait() error {
	f := g.owner
	f.check("Wait")
	err := g.wait()
	if err != nil && len(g.children) > 0 {
		if g.err == nil {
			g.err = err
		}
		g.stop(err)
		if err := f.shielded("Wait", g.wait); err != nil {
			return err
		}
	}
	return g.err
}

func (g *Group) wait() error {
	for len(g.children) > 0 {
		if err := g.owner.park("Wait", inGroupWait, 0); err != nil {
			return err
		}
	}
	return nil
}

// Cancel cancels all fibers of the group, as a failure with cause does. A nil cause means [context.Canceled]. Any fiber
// of the Run may call it.
func (g *Group) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	g.failed(cause)
}

func (g *Group) failed(err error) {
	if g.err == nil {
		g.err = err
		g.stop(err)
	}
}

func (g *Group) stop(cause error) {
	g.stopped = true
	for _, child := range g.children {
		child.cancel(cause)
	}
	g.owner.hub.asked = true
}

// Called by the hub when a fiber of the group has ended.
func (g *Group) told(f *Fiber) {
	last := g.children[len(g.children)-1]
	g.children[f.place], last.place = last, f.place
	g.children = g.children[:len(g.children)-1]
	err := f.outcome
	if err == nil {
		err = f.verdict
	}
	f.seen.Store(true)
	if err != nil {
		g.failed(err)
	}
	if len(g.children) == 0 {
		raw.Wakeup(g.owner.handle)
		g.owner.hub.asked = true
	}
}
