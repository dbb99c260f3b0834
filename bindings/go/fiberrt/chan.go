// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

// Recv receives from a channel of Go's while other fibers run; ok is false when it is closed and empty. An error says that
// f's wait has ended early: then nothing was received.
func Recv[T any](f *Fiber, ch <-chan T) (value T, ok bool, err error) {
	f.check("Recv")
	if err = f.pace("Recv"); err != nil {
		return value, false, err
	}
	select {
	case value, ok = <-ch:
		return value, ok, nil
	default:
	}
	// What the goroutine has received by the time that the fiber gives up is the fiber's.
	got := new(struct {
		value T
		ok    bool
	})
	err = f.helped("Recv", func(stop <-chan struct{}) bool {
		select {
		case got.value, got.ok = <-ch:
			return true
		case <-stop:
			return false
		}
	})
	return got.value, got.ok, err
}

// Send sends on a channel of Go's while other fibers run. An error says that f's wait has ended early: then nothing was
// sent. On a closed channel it panics as Go does.
func Send[T any](f *Fiber, ch chan<- T, value T) error {
	f.check("Send")
	if err := f.pace("Send"); err != nil {
		return err
	}
	select {
	case ch <- value:
		return nil
	default:
	}
	return f.helped("Send", func(stop <-chan struct{}) bool {
		select {
		case ch <- value:
			return true
		case <-stop:
			return false
		}
	})
}

// Has a goroutine block for the fiber. help returns whether it did what it is for, and ends at once when stop is closed: so
// the fiber can wait for that, and nothing is lost when a cancel meets a value.
func (f *Fiber) helped(call string, help func(stop <-chan struct{}) bool) error {
	j := &job{finished: make(chan struct{})}
	stop := make(chan struct{})
	helped := false
	f.employ(j, func() { helped = help(stop) })
	for !j.done.Load() {
		if err := f.park(call); err != nil && !j.done.Load() {
			close(stop)
			<-j.finished
			if !helped && j.panics == nil {
				return err
			}
		}
	}
	if j.panics != nil {
		panic(j.panics.Value)
	}
	return nil
}
