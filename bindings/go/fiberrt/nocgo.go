// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !cgo

package fiberrt

import _ "example.com/fiberrt/bindings/go/internal/self" // which names an unsupported system, first

// Without cgo the package cannot be built: the name of this variable is the error message.
var _ = fiberrt_needs_cgo__set_CGO_ENABLED_to_1_and_have_a_C_compiler
