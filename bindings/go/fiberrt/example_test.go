// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.com/fiberrt/bindings/go/fiberrt"
)

func ExampleRun() {
	err := fiberrt.Run(context.Background(), func(f *fiberrt.Fiber) {
		for _, name := range []string{"tick", "tock"} {
			f.Spawn(func(f *fiberrt.Fiber) {
				for range 2 {
					fmt.Println(name)
					f.Reschedule()
				}
			})
		}
	})
	fmt.Println(err)
	// Output:
	// tick
	// tock
	// tick
	// tock
	// <nil>
}

func ExampleAwait() {
	fiberrt.Run(context.Background(), func(f *fiberrt.Fiber) {
		answer, err := fiberrt.Await(f, func(context.Context) (int, error) {
			time.Sleep(time.Millisecond) // a call that blocks
			return 42, nil
		})
		fmt.Println(answer, err)
	})
	// Output: 42 <nil>
}

func ExampleFiber_Join() {
	fiberrt.Run(context.Background(), func(f *fiberrt.Fiber) {
		child := f.Spawn(func(*fiberrt.Fiber) { panic("boom") })
		var p *fiberrt.PanicError
		if errors.As(f.Join(child), &p) {
			fmt.Println("it has panicked:", p.Value)
		}
	})
	// Output: it has panicked: boom
}

func ExampleFiber_Group() {
	fiberrt.Run(context.Background(), func(f *fiberrt.Fiber) {
		group := f.Group()
		group.Go(func(f *fiberrt.Fiber) error { return f.Sleep(time.Hour) })
		group.Go(func(f *fiberrt.Fiber) error { return errors.New("no such file") })
		fmt.Println(group.Wait())
	})
	// Output: no such file
}

func ExampleFiber_WithContext() {
	fiberrt.Run(context.Background(), func(f *fiberrt.Fiber) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		err := f.WithContext(ctx, func() error { return f.Sleep(time.Hour) })
		fmt.Println(errors.Is(err, context.DeadlineExceeded))
	})
	// Output: true
}

func ExampleRecv() {
	fiberrt.Run(context.Background(), func(f *fiberrt.Fiber) {
		words := make(chan string)
		f.Spawn(func(f *fiberrt.Fiber) {
			fiberrt.Send(f, words, "hello")
			close(words)
		})
		for {
			word, ok, err := fiberrt.Recv(f, words)
			if !ok || err != nil {
				break
			}
			fmt.Println(word)
		}
	})
	// Output: hello
}

func ExampleConn_On() {
	listener, err := fiberrt.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fiberrt.Run(context.Background(), func(f *fiberrt.Fiber) {
		f.Spawn(func(f *fiberrt.Fiber) {
			defer listener.On(f).Close()
			conn, err := listener.On(f).Accept()
			if err != nil {
				fmt.Println(err)
				return
			}
			defer conn.On(f).Close()
			fmt.Fprintln(conn.On(f), "hello")
		})
		conn, err := f.Dial("tcp", listener.Addr().String())
		if err != nil {
			fmt.Println(err)
			return
		}
		defer conn.Close()
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		text, err := io.ReadAll(conn)
		fmt.Printf("%q %v\n", text, err)
	})
	// Output: "hello\n" <nil>
}

// Ordinary goroutines, such as those of net/http, can use the connections, too.
func ExampleListener() {
	listener, err := fiberrt.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }))
	defer listener.Close()
	response, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	fmt.Println(string(text), err)
	// Output: hello <nil>
}
