// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_posix_...: unmodified libraries wait as fibers.
#include "fiberrt.h"
#include "posix/adopt.h"

#include <errno.h>

using namespace fiberrt;

int fiber_posix_adopt(const char* library, unsigned flags) {
    if ((flags & ~(FIBER_POSIX_LATER | FIBER_POSIX_NO_LOCKS)) || (library && !*library)) return -EINVAL;
    return posix::adopt(library, flags);
}

int fiber_posix_release(const char* library) {
    if (library && !*library) return -EINVAL;
    return posix::release(library);
}

int fiber_posix_each(int (*visit)(const char* library, const char* function, void* arg), void* arg) {
    return visit ? posix::each(visit, arg) : -EINVAL;
}
