// SPDX-License-Identifier: MIT OR Apache-2.0
// dlopen, dlmopen and dlclose, for adoptions with FIBER_POSIX_LATER. Constructors and destructors run under a lock of
// the dynamic linker, which belongs to the thread: their waits block the thread.
#include "posix/adopt.h"
#include "posix/calls.h"
#include "posix/no_switch.h"
#include "posix/plain.h"
#include "posix/search_path.h"

namespace fiberrt::posix {

namespace {

// Opens a library as the caller's own call would.
template <class Open>
void* open_for(const void* caller, const char* file, int flags, Lmid_t space, Open open) {
    NoSwitch loading;
    SearchPath path(file, caller);
    void* handle = nullptr;
    if (path.is_loaded() && space == LM_ID_BASE) {
        handle = open(file, flags | RTLD_NOLOAD);
        if (!handle) (void)dlerror();
    }
    if (!handle) handle = open(path.file(), flags);
    // A library in another namespace has another copy of the C library, and is left alone.
    if (handle && space == LM_ID_BASE && !(flags & RTLD_NOLOAD)) adopt_loaded();
    return handle;
}

} // namespace

void* dlopen(const char* file, int flags) noexcept {
    return open_for(__builtin_return_address(0), file, flags, LM_ID_BASE,
                    [](const char* path, int mode) { return plain.dlopen(path, mode); });
}

void* dlmopen(Lmid_t space, const char* file, int flags) noexcept {
    return open_for(__builtin_return_address(0), file, flags, space,
                    [=](const char* path, int mode) { return plain.dlmopen(space, path, mode); });
}

int dlclose(void* handle) noexcept {
    NoSwitch unloading;
    return ::dlclose(handle);
}

} // namespace fiberrt::posix
