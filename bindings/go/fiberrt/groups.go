// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

const idsOfGroup = 8 // the most fibers that a group names

// FiberGroup is a number of fibers that do the same.
type FiberGroup struct {
	Count    int       `json:"count"`
	State    string    `json:"state"`  // as FiberInfo has it
	Wait     string    `json:"wait"`   // without the numbers of descriptors and fibers
	Fibers   []ID      `json:"fibers"` // the first eight
	Frames   []Frame   `json:"frames,omitempty"`
	GoFrames []GoFrame `json:"go_frames,omitempty"`
}

// Groups fibers by their states, waits and frames, the largest group first.
func groupsOf(fibers []FiberInfo) []FiberGroup {
	var groups []FiberGroup
	places := map[string]int{}
	for i := range fibers {
		f := &fibers[i]
		wait := waitKindOf(f)
		key := fmt.Sprint(f.State, "\x00", wait, f.GoFrames)
		for _, frame := range f.Frames {
			key += frame.PC.String()
		}
		place, known := places[key]
		if !known {
			place = len(groups)
			places[key] = place
			groups = append(groups, FiberGroup{State: f.State, Wait: wait, Frames: f.Frames, GoFrames: f.GoFrames})
		}
		group := &groups[place]
		if group.Count++; len(group.Fibers) < idsOfGroup {
			group.Fibers = append(group.Fibers, f.ID)
		}
	}
	slices.SortStableFunc(groups, func(a, b FiberGroup) int { return cmp.Compare(b.Count, a.Count) })
	return groups
}

// Returns why a fiber waits, without numbers, which would differ between fibers that do the same.
func waitKindOf(f *FiberInfo) string {
	wait, _, _ := strings.Cut(f.Wait, " on descriptor ")
	wait, _, _ = strings.Cut(wait, " 0x")
	if wait == "" {
		return f.State
	}
	return wait
}

// Writes the dump as text: cords, and fibers by groups.
func (report *DumpReport) writeGroups(w io.Writer, frames bool) error {
	var text strings.Builder
	fmt.Fprintf(&text, "fiberrt %s\n", report.Version)
	for _, cord := range report.Cords {
		fmt.Fprintf(&text, "cord %s", cord.ID)
		if cord.Name != "" {
			fmt.Fprintf(&text, " %q", cord.Name)
		}
		fmt.Fprintf(&text, ": thread %d, %d fibers\n", cord.Thread, cord.Fibers)
	}
	for i := range report.Groups {
		report.Groups[i].write(&text, frames)
	}
	for _, circle := range report.Deadlocks {
		fmt.Fprintf(&text, "deadlock: fibers wait for each other, in a circle: %s\n", joined(circle))
	}
	for _, circle := range report.WaitCircles {
		fmt.Fprintf(&text, "fibers wait for each other, until a deadline or another fiber ends that: %s\n", joined(circle.Fibers))
	}
	for _, sentence := range report.Incomplete {
		fmt.Fprintln(&text, sentence)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (g *FiberGroup) write(text *strings.Builder, frames bool) {
	plural := "s"
	if g.Count == 1 {
		plural = ""
	}
	fmt.Fprintf(text, "%d fiber%s: %s", g.Count, plural, g.Wait)
	for _, frame := range g.Frames {
		fmt.Fprintf(text, " ← %s", cmp.Or(frame.Symbol, frame.PC.String()))
	}
	for _, frame := range g.GoFrames {
		fmt.Fprintf(text, " ← %s", frame.Function[strings.LastIndexByte(frame.Function, '/')+1:])
	}
	fmt.Fprintf(text, "\n    fiber %s", joined(g.Fibers))
	if g.Count > len(g.Fibers) {
		text.WriteString(", …")
	}
	text.WriteByte('\n')
	if !frames {
		return
	}
	for i, frame := range g.Frames {
		name := cmp.Or(frame.Symbol, frame.PC.String())
		fmt.Fprintf(text, "    #%d %s+0x%x (%s+0x%x)\n", i, name, frame.Offset, frame.Object, frame.ObjectOffset)
	}
	for i, frame := range g.GoFrames {
		fmt.Fprintf(text, "    go #%d %s (%s:%d)\n", i, frame.Function, frame.File, frame.Line)
	}
}

func joined(ids []ID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, ", ")
}
