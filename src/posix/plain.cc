// SPDX-License-Identifier: MIT OR Apache-2.0
// Looks up the C library's functions of posix/plain.h.
#include "posix/plain.h"

#include <link.h>

namespace fiberrt::posix {

constinit Plain plain;

namespace {

// In a program at a fixed address that takes a function's address, this is the program's entry for calls of the
// function. Such calls are adopted, so the function that is wanted here is the next one.
void* find_function(const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    Dl_info info;
    ElfW(Sym)* symbol = nullptr;
    bool is_entry = found && dladdr1(found, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) && symbol &&
                    info.dli_saddr == found && symbol->st_shndx == SHN_UNDEF;
    return is_entry ? dlsym(RTLD_NEXT, name) : found;
}

} // namespace

bool find_plain() {
    bool all = true;
    // Several threads may do this at once: they store the same addresses.
#define X(name)                                                                           \
    {                                                                                     \
        void* found = find_function(#name);                                               \
        __atomic_store_n(reinterpret_cast<void**>(&plain.name), found, __ATOMIC_RELAXED); \
        if (!found) all = false;                                                          \
    }
    FIBERRT_POSIX_PLAIN(X)
#undef X
    return all;
}

} // namespace fiberrt::posix
