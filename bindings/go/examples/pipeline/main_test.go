// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSearch(t *testing.T) {
	folder := t.TempDir()
	var names []string
	for i := range 30 {
		name := filepath.Join(folder, fmt.Sprint(i))
		if err := os.WriteFile(name, []byte(strings.Repeat("a fiber ", i)), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	total, files := 0, 0
	err := search(context.Background(), "fiber", names, func(f found) { total += f.count; files++ })
	if total != 30*29/2 || files != 29 || err != nil {
		t.Error(total, files, err)
	}

	// The first failure ends all stages.
	err = search(context.Background(), "fiber", append([]string{filepath.Join(folder, "none")}, names...), func(found) {})
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = search(ctx, "fiber", names, func(found) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
