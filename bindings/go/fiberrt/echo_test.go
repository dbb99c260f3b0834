// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const echoConnections, echoBytes = 50, 64

// The compared kinds of echo servers. Each serves until its listener is closed.
var echoServers = map[string]func() (address string, stop func()){
	"net": func() (string, func()) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		return l.Addr().String(), echo(l)
	},
	"conn": func() (string, func()) {
		l, err := Listen(background, "tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		return l.Addr().String(), echo(l)
	},
	"hub": func() (string, func()) {
		l, err := Listen(background, "tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		ended := make(chan error)
		go func() {
			ended <- Run(background, func(f *Fiber) {
				for {
					c, err := l.On(f).Accept()
					if err != nil {
						return
					}
					f.Spawn(func(f *Fiber) { answer(c.On(f)) })
				}
			})
		}()
		return l.Addr().String(), func() {
			l.Close()
			if err := <-ended; err != nil {
				panic(err)
			}
		}
	},
}

func echo(l net.Listener) (stop func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	return func() {
		l.Close()
		<-ended
	}
}

func answer(c net.Conn) {
	defer c.Close()
	request := make([]byte, echoBytes)
	for {
		n, err := c.Read(request)
		if err != nil {
			return
		}
		if _, err := c.Write(request[:n]); err != nil {
			return
		}
	}
}

// The clients run in a separate process, so that the CPU time of this process is that of the server.
func TestMain(m *testing.M) {
	if address := os.Getenv("FIBERRT_TEST_ECHO_LOAD"); address != "" {
		requests, _ := strconv.Atoi(os.Getenv("FIBERRT_TEST_ECHO_REQUESTS"))
		if err := askEcho(address, requests); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func askEcho(address string, requests int) error {
	ended := make(chan error)
	for range echoConnections {
		go func() {
			ended <- func() error {
				c, err := net.Dial("tcp", address)
				if err != nil {
					return err
				}
				defer c.Close()
				request, answer := make([]byte, echoBytes), make([]byte, echoBytes)
				for i := range requests {
					request[0] = byte(i)
					if _, err := c.Write(request); err != nil {
						return err
					}
					if _, err := io.ReadFull(c, answer); err != nil {
						return err
					}
					if answer[0] != byte(i) {
						return errors.New("another answer")
					}
				}
				return nil
			}()
		}()
	}
	var err error
	for range echoConnections {
		err = errors.Join(err, <-ended)
	}
	return err
}

// Returns the CPU time and the elapsed time of a server per request.
func measureEcho(b testing.TB, kind string, requests int) (cpuNs, ns float64) {
	address, stop := echoServers[kind]()
	load := exec.Command(os.Args[0])
	load.Env = append(os.Environ(), "FIBERRT_TEST_ECHO_LOAD="+address, "GOMAXPROCS=1",
		fmt.Sprint("FIBERRT_TEST_ECHO_REQUESTS=", requests))
	load.Stderr = os.Stderr
	cpu := func() time.Duration {
		var usage syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before, began := cpu(), time.Now()
	if err := load.Run(); err != nil {
		b.Fatal(kind, err)
	}
	took, all := cpu()-before, time.Since(began)
	stop()
	count := float64(requests * echoConnections)
	return float64(took) / count, float64(all) / count
}

func TestEcho(t *testing.T) {
	for kind := range echoServers {
		measureEcho(t, kind, 20)
	}
}

// Requests of 64 bytes on 50 connections: the servers' times per request, as medians of interleaved rounds.
func BenchmarkEchoRatios(b *testing.B) {
	const rounds, requests = 9, 1000
	cpuNs, ns := map[string][]float64{}, map[string][]float64{}
	for range rounds {
		for kind := range echoServers {
			runtime.GC()
			cpu, all := measureEcho(b, kind, requests)
			cpuNs[kind], ns[kind] = append(cpuNs[kind], cpu), append(ns[kind], all)
		}
	}
	median := func(of []float64) float64 { slices.Sort(of); return of[len(of)/2] }
	b.ReportMetric(0, "ns/op")
	for kind := range echoServers {
		b.ReportMetric(median(cpuNs[kind]), "cpu-ns/"+kind)
		b.ReportMetric(median(ns[kind]), "ns/"+kind)
	}
	b.ReportMetric(median(cpuNs["hub"])/median(cpuNs["net"]), "cpu-hub/net")
	b.ReportMetric(median(cpuNs["conn"])/median(cpuNs["net"]), "cpu-conn/net")
}
