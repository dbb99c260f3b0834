// SPDX-License-Identifier: MIT OR Apache-2.0

// Pipeline finds a word in files. One fiber lists the files, some read them, and one counts. Channels connect these
// stages. The first failure, or SIGINT, ends all of them.
//
//	pipeline WORD FILE...
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"example.com/fiberrt/bindings/go/fiberrt"
)

const readers = 4

type found struct {
	name  string
	count int
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: pipeline WORD FILE...")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	total := 0
	err := search(ctx, os.Args[1], os.Args[2:], func(f found) {
		fmt.Printf("%d %s\n", f.count, f.name)
		total += f.count
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(total, "in all")
}

// Calls each for every file that contains the word.
func search(ctx context.Context, word string, names []string, each func(found)) error {
	var failure error
	err := fiberrt.Run(ctx, func(f *fiberrt.Fiber) {
		group := f.Group()
		named, counted := make(chan string), make(chan found)
		group.Go(func(f *fiberrt.Fiber) error {
			defer close(named)
			for _, name := range names {
				if err := fiberrt.Send(f, named, name); err != nil {
					return err
				}
			}
			return nil
		})
		reading := readers // no lock: the fibers of a Run run one at a time
		for range readers {
			group.Go(func(f *fiberrt.Fiber) error {
				defer func() {
					if reading--; reading == 0 {
						close(counted)
					}
				}()
				for {
					name, ok, err := fiberrt.Recv(f, named)
					if !ok || err != nil {
						return err
					}
					text, err := fiberrt.Await(f, func(context.Context) ([]byte, error) { return os.ReadFile(name) })
					if err != nil {
						return err
					}
					if n := bytes.Count(text, []byte(word)); n > 0 {
						if err := fiberrt.Send(f, counted, found{name, n}); err != nil {
							return err
						}
					}
				}
			})
		}
		group.Go(func(f *fiberrt.Fiber) error {
			for {
				one, ok, err := fiberrt.Recv(f, counted)
				if !ok || err != nil {
					return err
				}
				each(one)
			}
		})
		failure = group.Wait()
	})
	if failure != nil {
		return failure
	}
	return err
}
