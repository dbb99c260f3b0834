// SPDX-License-Identifier: MIT OR Apache-2.0

// Package self tells goroutines apart. It has assembly, which a package with cgo cannot have.
package self

// G is the address of what the runtime keeps of the calling goroutine: the same wherever it runs, and no other's as long
// as it lives. It is only to be compared.
func G() uintptr
