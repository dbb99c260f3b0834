// SPDX-License-Identifier: MIT OR Apache-2.0
// What C libraries do in different ways. The library runs with glibc 2.28 or newer, and with musl.
#pragma once

#include <features.h>

// Whether the C library is glibc, of this version or newer.
#ifdef __GLIBC__
#define FIBERRT_GLIBC(major, minor) __GLIBC_PREREQ(major, minor)
#else
#define FIBERRT_GLIBC(major, minor) 0
#endif

// Whether the library can adopt other libraries (src/posix). That needs a glibc that contains libpthread and libdl.
#define FIBERRT_ADOPTS FIBERRT_GLIBC(2, 34)

namespace fiberrt {

// The text of an error such as ENOMEM; null: there is no such error. glibc before 2.32 may translate it.
const char* error_text(int error);

// Takes the return addresses of the calling thread, innermost first, as backtrace(3) does: frames[0] lies in the
// calling function. Returns their number, at most `most`.
int take_backtrace(void** frames, int most);

} // namespace fiberrt
