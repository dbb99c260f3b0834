// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"bytes"
	"io"
	"os"
	"runtime"

	"example.com/fiberrt/bindings/go/internal/raw"
)

// Dump writes a report for debugging, as text for people. Anywhere. The report has
//   - the output of fiber_dump: the library's version and backend, and every cord and fiber of the process with its
//     name and state;
//   - the fibers that wait in [Recv] or [Send] on a channel at whose other end no fiber of their [Run] waits;
//   - the stacks of the coroutines that run Go fibers.
func Dump(w io.Writer) error {
	r, pipe, err := os.Pipe()
	if err != nil {
		return err
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		io.Copy(io.Discard, r) // the writer must not block for ever
		read <- err
	}()
	result := raw.DumpFd(int(pipe.Fd()))
	pipe.Close()
	err = <-read
	r.Close()
	if result < 0 {
		return failure("Dump", int64(result))
	}
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, dumpChanWaits()); err != nil {
		return err
	}
	for _, stack := range bytes.Split(stacks(), []byte("\n\n")) {
		head, _, _ := bytes.Cut(stack, []byte("\n"))
		if bytes.Contains(head, []byte("[coroutine")) {
			if _, err := w.Write(append(stack, "\n\n"...)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Returns the stacks of all goroutines, or the first 64 MiB of them.
func stacks() []byte {
	for size := 1 << 16; ; size *= 4 {
		text := make([]byte, size)
		if n := runtime.Stack(text, true); n < size || size >= 64<<20 {
			return text[:n]
		}
	}
}
