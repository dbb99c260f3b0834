// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Another module uses the package from a folder, as the README says. The test builds each of the README's programs
// there, and runs the first two. GOFLAGS holds for these builds, too: test.sh sets the tag fiberrt_system in it.
func TestUseFromAnotherModule(t *testing.T) {
	here, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	run := func(env []string, name string, arguments ...string) (string, error) {
		command := exec.Command(name, arguments...)
		command.Dir = folder
		command.Env = append(os.Environ(), env...)
		text, err := command.CombinedOutput()
		return string(text), err
	}
	header, err := os.ReadFile("../clib/fiberrt.h")
	if err != nil {
		header, err = os.ReadFile("../../../include/fiberrt.h") // in a checkout
	}
	if err != nil {
		t.Fatal(err)
	}
	programs := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1)
	if len(programs) < 2 {
		t.Fatal("there are no programs in the README")
	}
	for i, program := range programs {
		name := filepath.Join(folder, fmt.Sprint("program", i), "main.go")
		err := errors.Join(os.Mkdir(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(program[1]), 0o666))
		if strings.Contains(program[1], "fiberrt.h") {
			err = errors.Join(err, os.WriteFile(filepath.Join(filepath.Dir(name), "fiberrt.h"), header, 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, err := run(nil, "gofmt", "-l", name); text != "" || err != nil {
			t.Error("the README is not as gofmt formats: ", text, err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module user\n\ngo 1.24\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	edit := regexp.MustCompile("(?m)^ +(go mod edit .*)$").FindSubmatch(readme)
	if edit == nil {
		t.Fatal("the README does not say how")
	}
	command := strings.Fields(strings.ReplaceAll(string(edit[1]), "/path/to/module", here))
	if cached := regexp.MustCompile("@(v[0-9][^/]*)").FindStringSubmatch(here); cached != nil {
		// From a module proxy: compiled in another folder already.
		command = strings.Fields(strings.ReplaceAll(strings.Join(command[:5], " "), "@v0.0.0", "@"+cached[1]))
		t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
	}
	if text, err := run(nil, command[0], command[1:]...); err != nil {
		t.Fatal(text, err)
	}
	if text, err := run(nil, "go", "build", "-o", os.DevNull, "./..."); err != nil {
		t.Error(text, err)
	}
	goRun := func(program string, env ...string) string {
		text, _ := run(env, "go", "run", "./"+program)
		return text
	}
	if text := goRun("program0"); text != "99990000\n" {
		t.Error(text)
	}
	if text := goRun("program1"); text != "hello from one fiber\nhello from another\n" {
		t.Error(text)
	}
	for _, refusal := range []struct{ says, env string }{
		{"fiberrt_needs_cgo__set_CGO_ENABLED_to_1", "CGO_ENABLED=0"},
		{"fiberrt_runs_only_on_Linux_on_amd64_arm64_and_riscv64", "GOOS=darwin"},
		{"fiberrt_runs_only_on_Linux_on_amd64_arm64_and_riscv64", "GOARCH=386"},
	} {
		text := goRun("program1", refusal.env)
		if !strings.Contains(text, refusal.says) || strings.Count(text, "fiberrt_") != 1 {
			t.Error(refusal.env, " does not print one sentence with ", refusal.says, ": ", text)
		}
	}
	if !strings.Contains(os.Getenv("GOFLAGS"), "fiberrt_system") {
		return
	}
	// Another flag keeps Go from using its cache.
	if text := goRun("program1", "CGO_CFLAGS=-O1", "PKG_CONFIG_PATH=", "PKG_CONFIG_LIBDIR=/nowhere"); !strings.Contains(text, "fiberrt.pc") {
		t.Error("without the library: ", text)
	}
}
