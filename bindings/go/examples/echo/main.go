// SPDX-License-Identifier: MIT OR Apache-2.0

// Echo is a server that sends all bytes back, with a fiber for each connection, on one thread. On SIGINT or SIGTERM it
// stops listening, and ends when all connections have ended, or after ten seconds.
//
//	echo [ADDRESS]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"example.com/fiberrt/bindings/go/fiberrt"
)

const grace = 10 * time.Second

func main() {
	address := "127.0.0.1:7007"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, address); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, address string) error {
	listener, err := fiberrt.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	context.AfterFunc(ctx, func() { listener.Close() })

	// The listener ends first, the connections up to ten seconds later.
	all, end := context.WithCancel(context.Background())
	defer end()
	context.AfterFunc(ctx, func() { time.AfterFunc(grace, end) })
	return fiberrt.Run(all, func(f *fiberrt.Fiber) {
		for {
			conn, err := listener.On(f).Accept()
			if errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) {
				return
			}
			if err != nil { // for example, too many descriptors
				log.Print(err)
				f.Sleep(100 * time.Millisecond)
				continue
			}
			f.Spawn(func(f *fiberrt.Fiber) {
				defer conn.On(f).Close()
				if _, err := io.Copy(conn.On(f), conn.On(f)); err != nil {
					log.Print(err)
				}
			})
		}
	})
}
