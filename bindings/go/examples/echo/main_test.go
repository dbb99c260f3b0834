// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Runs the program as users do: it answers, and ends on a signal.
func TestEcho(t *testing.T) {
	if os.Getenv("FIBERRT_TEST_IS_ECHO") != "" {
		os.Args = []string{"echo", "127.0.0.1:0"}
		main()
		return
	}
	server := exec.Command(os.Args[0], "-test.run=^TestEcho$")
	server.Env = append(os.Environ(), "FIBERRT_TEST_IS_ECHO=yes")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Process.Kill()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok || err != nil {
		t.Fatal(line, err)
	}
	ended := make(chan error)
	for i := range 20 {
		go func() {
			ended <- func() error {
				c, err := net.Dial("tcp", address)
				if err != nil {
					return err
				}
				defer c.Close()
				fmt.Fprintf(c, "hello %d", i)
				c.(*net.TCPConn).CloseWrite()
				answer, err := io.ReadAll(c)
				if want := fmt.Sprint("hello ", i); string(answer) != want {
					return fmt.Errorf("%q instead of %q: %w", answer, want, err)
				}
				return err
			}()
		}()
	}
	for range 20 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	server.Process.Signal(os.Interrupt)
	io.Copy(io.Discard, lines)
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}
