// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux && (amd64 || arm64 || riscv64)

// Package self identifies the calling goroutine. It has assembly, which a package with cgo cannot have.
package self

// G returns the address of the runtime's record of the calling goroutine. It is unique among living goroutines, and
// does not change when the goroutine moves to another thread. Use it only for comparisons.
func G() uintptr
