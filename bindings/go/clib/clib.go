// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

// Package clib links libfiberrt, the C library, into the program. It has no Go API.
//
// A published module has the library's sources in this folder, and Go compiles them: fiberrt.cc, which is all of it, and
// fiberrt_backends.c, which is liburing and libev. With the build tag fiberrt_system the package links an installed
// library instead, which it finds by pkg-config.
//
// Your own C code includes <fiberrt.h>, which is in this folder.
package clib

/*
#cgo fiberrt_system pkg-config: fiberrt
// The loader looks up all functions when the program starts: it names a function that an older library lacks.
#cgo fiberrt_system LDFLAGS: -Wl,-z,now
#cgo !fiberrt_system CPPFLAGS: -DFIBERRT_BUNDLED -DFIBERRT_PRIVATE
#cgo !fiberrt_system CFLAGS: -O2 -g0 -Wfatal-errors
#cgo !fiberrt_system CXXFLAGS: -std=c++20 -O2 -g0 -fno-exceptions -fno-rtti -Wfatal-errors
#cgo !fiberrt_system LDFLAGS: -ldl -pthread

#ifndef __linux__
#error "fiberrt runs only on Linux"
#endif
#if !defined __x86_64__ && !defined __aarch64__ && !(defined __riscv && __riscv_xlen == 64)
#error "fiberrt runs only on amd64, arm64 and riscv64"
#endif
#if defined FIBERRT_BUNDLED && !__has_include("fiberrt.cc")
#error "this module has no library: make one that has by ./dev go-module, or build with -tags fiberrt_system"
#endif
*/
import "C"
