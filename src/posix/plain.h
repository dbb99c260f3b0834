// SPDX-License-Identifier: MIT OR Apache-2.0
// Pointers to those functions of the C library about which the linker warns in a static program. To avoid the warning,
// find_plain() looks them up when the first library is adopted; a static program adopts none.
#pragma once

#include <dlfcn.h>
#include <netdb.h>

namespace fiberrt::posix {

#define FIBERRT_POSIX_PLAIN(X) \
    X(dlopen)                  \
    X(dlmopen)                 \
    X(gethostbyname)           \
    X(gethostbyname2)          \
    X(gethostbyaddr)           \
    X(gethostbyname_r)         \
    X(gethostbyname2_r)        \
    X(gethostbyaddr_r)

struct Plain {
#define X(name) decltype(&::name) name = nullptr;
    FIBERRT_POSIX_PLAIN(X)
#undef X
};

extern Plain plain;

// Looks up the functions and stores them in `plain`. false: the C library does not have them, or the program is static.
bool find_plain();

} // namespace fiberrt::posix
