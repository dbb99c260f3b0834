// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_posix_...: unmodified libraries wait as fibers. With another C library than glibc 2.34 or newer, the calls return
// -ENOTSUP, and the other files of this folder are not compiled.
#include "fiberrt.h"
#include "base/c_library.h"
#if FIBERRT_ADOPTS
#include "posix/adopt.h"
#endif

#include <errno.h>

using namespace fiberrt;

#if !FIBERRT_ADOPTS
namespace fiberrt::posix {
namespace {

int adopt(const char*, unsigned) { return -ENOTSUP; }
int release(const char*) { return -ENOTSUP; }
int each(int (*)(const char* library, const char* function, void* arg), void*) { return 0; } // none is adopted

} // namespace
} // namespace fiberrt::posix
#endif

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
