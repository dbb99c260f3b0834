// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Another module, elsewhere, uses the package as the README says.
func TestUseFromAnotherModule(t *testing.T) {
	here, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module user\n\ngo 1.24\n\nrequire example.com/fiberrt/bindings/go v0.0.0\n\n" +
			"replace example.com/fiberrt/bindings/go => " + here + "\n",
		"main.go": `package main

import (
	"context"
	"fmt"

	"example.com/fiberrt/bindings/go/fiberrt"
)

func main() {
	err := fiberrt.Run(context.Background(), func(f *fiberrt.Fiber) {
		f.Join(f.Spawn(func(*fiberrt.Fiber) { fmt.Print("a fiber ") }))
	})
	fmt.Print(err)
}
`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	goRun := func(env ...string) string {
		command := exec.Command("go", "run", ".")
		command.Dir = folder
		command.Env = append(os.Environ(), env...)
		text, _ := command.CombinedOutput()
		return string(text)
	}
	if text := goRun(); text != "a fiber <nil>" {
		t.Error(text)
	}
	if text := goRun("CGO_ENABLED=0"); !strings.Contains(text, "fiberrt_needs_cgo__set_CGO_ENABLED_to_1") {
		t.Error("without cgo: ", text)
	}
	// With another flag what is built already does not count.
	if text := goRun("CGO_CFLAGS=-O1", "PKG_CONFIG_PATH=", "PKG_CONFIG_LIBDIR=/nowhere"); !strings.Contains(text, "fiberrt.pc") {
		t.Error("without the library: ", text)
	}
}
