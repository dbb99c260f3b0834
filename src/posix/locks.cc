// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of the functions of posix/locks.h. They are the same in a simulation.
#include "posix/locks.h"
#include "posix/layout.h"

#include <string.h>

namespace fiberrt::posix {

namespace {

// Whether the import is the function that posix/locks.h replaces. glibc for x86-64 has two kinds of condition
// variables, with the same names of functions. An import without a version is of the old kind, which is not replaced;
// except if the linker found the function in ThreadSanitizer's runtime: then the import is of the new kind.
bool is_meant(const char* name, const char* version) {
#if defined(__x86_64__)
    constexpr const char* start = "pthread_cond_";
    if (!strncmp(name, start, strlen(start)))
        return version ? strcmp(version, "GLIBC_2.2.5") != 0 : conditions_are_interposed();
#endif
    (void)name, (void)version;
    return true;
}

} // namespace

// The table is made at run time: the addresses would need relocations, and the library has no constructors.
const Replacement* find_lock(const char* name, const char* version) {
#define X(function, name) {#name, reinterpret_cast<void*>(&posix::function)},
    static const Replacement table[] = {FIBERRT_POSIX_LOCKS(X)};
#undef X
    for (const Replacement& one : table)
        if (*one.name == *name && !strcmp(one.name, name)) return is_meant(name, version) ? &one : nullptr;
    return nullptr;
}

} // namespace fiberrt::posix
