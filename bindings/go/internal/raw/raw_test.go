// SPDX-License-Identifier: MIT OR Apache-2.0

package raw

import (
	"os"
	"regexp"
	"testing"
)

// Handles are plain values: SWIG makes no pointer types of them, and takes no memory for them.
func TestHandlesArePlainValues(t *testing.T) {
	for file, never := range map[string]string{
		"raw.go":     `Swigcptr`,
		"raw_wrap.c": `calloc|new_fiber|argp[0-9]|malloc\(sizeof`,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(never).Find(text); found != nil {
			t.Errorf("%s has %s", file, found)
		}
	}
	text, _ := os.ReadFile("raw.go")
	for _, handle := range []string{"Fiber", "Cord", "Scope", "Chan"} {
		if !regexp.MustCompile(`(?m)^type ` + handle + ` uint64$`).Match(text) {
			t.Errorf("%s is no uint64", handle)
		}
	}
}

func TestColdCalls(t *testing.T) {
	if Version() < 1 || Now() <= 0 || Features() == 0 || BackendName() == "" || StrError(-4) == "" {
		t.Error(Version(), Now(), Features(), BackendName())
	}
	var chan_ Chan
	if result := ChanCreate(&chan_, 8, 1); result != 0 || chan_ == 0 {
		t.Fatal(result)
	}
	if ChanCount(chan_) != 0 || ChanClose(chan_) != 0 || ChanDestroy(chan_) != 0 || ChanDestroy(chan_) >= 0 {
		t.Error("a channel's life")
	}
	if State(Fiber(12345)) >= 0 {
		t.Error("a handle that was never given out")
	}
}
