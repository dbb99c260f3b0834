// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !cgo

package fiberrt

// The library is C's: without cgo there is nothing to build.
var _ = fiberrt_needs_cgo__set_CGO_ENABLED_to_1_and_have_a_C_compiler
