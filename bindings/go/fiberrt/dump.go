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

// Dump writes what there is to know, as text for people: the library's version and backend, every cord and fiber of the
// process with its name and state, as fiber_dump tells it; the fibers that wait in Recv or Send on a channel at whose other
// end no fiber of their Run is; and the stacks of the coroutines that run Go's. Anywhere.
func Dump(w io.Writer) error {
	r, pipe, err := os.Pipe()
	if err != nil {
		return err
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		io.Copy(io.Discard, r) // who writes must not wait for ever
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

// The stacks of all goroutines. Of more than fit into 64 MiB, so many.
func stacks() []byte {
	for size := 1 << 16; ; size *= 4 {
		text := make([]byte, size)
		if n := runtime.Stack(text, true); n < size || size >= 64<<20 {
			return text[:n]
		}
	}
}
