// SPDX-License-Identifier: MIT OR Apache-2.0
// libev's functions, renamed to those of the library's own copy of libev. Every file of the backend includes this
// instead of ev.h.
//
// A program may have functions of the same names: its own libev, of another version, or only one such name. By the
// linker's rules this library, and a libev.so.4 that it uses, would then call the program's functions. So the build
// makes a copy of libev.a (private_libev.cmake). All names of the copy are local except those below, which it renames;
// CMake reads this list. Without FIBERRT_EV_PRIVATE the build found no libev.a and uses libev.so.4.
// With FIBERRT_BUNDLED libev is compiled from its sources, under other names (tools/amalgamate/backends.py).
#pragma once

#ifdef FIBERRT_BUNDLED
#include "fiberrt_ev.h"
#elif defined FIBERRT_EV_PRIVATE
#define ev_fork_start fiberrt_ev_fork_start
#define ev_invoke_pending fiberrt_ev_invoke_pending
#define ev_io_start fiberrt_ev_io_start
#define ev_io_stop fiberrt_ev_io_stop
#define ev_loop_destroy fiberrt_ev_loop_destroy
#define ev_loop_new fiberrt_ev_loop_new
#define ev_run fiberrt_ev_run
#define ev_set_allocator fiberrt_ev_set_allocator // only tests use it
#define ev_set_invoke_pending_cb fiberrt_ev_set_invoke_pending_cb
#define ev_set_loop_release_cb fiberrt_ev_set_loop_release_cb
#define ev_set_userdata fiberrt_ev_set_userdata
#define ev_userdata fiberrt_ev_userdata
#define ev_version_major fiberrt_ev_version_major // only fiberrt-doctor uses it
#define ev_version_minor fiberrt_ev_version_minor

// The copy's name for stderr: in a shared library, code compiled for programs may not refer to the C library's.
#include <stdio.h>
extern "C" [[gnu::visibility("hidden")]] FILE* fiberrt_ev_stderr;

// Headers that ev.h includes, first, so that the C library's declarations in them are not hidden.
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#pragma GCC visibility push(hidden)
#include <ev.h>
#pragma GCC visibility pop
#else
#include <ev.h>
#endif
