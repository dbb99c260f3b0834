// SPDX-License-Identifier: MIT OR Apache-2.0
// Searches as glibc's dynamic linker does: DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH; the rest does not depend on the
// caller. This file does not search the folders for newer processors (glibc-hwcaps) below a caller's folder.
#include "posix/search_path.h"

#include "base/keep_errno.h"
#include "posix/objects.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace fiberrt::posix {

namespace {

link_map* object_of(const void* address) {
    Dl_info info;
    void* map = nullptr;
    return dladdr1(address, &info, &map, RTLD_DL_LINKMAP) ? static_cast<link_map*>(map) : nullptr;
}

char* joined(const char* folder, const char* name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    auto* path = static_cast<char*>(malloc(size));
    if (!path) return nullptr;
    char* end = stpcpy(path, folder);
    if (end != path && end[-1] != '/') *end++ = '/';
    memcpy(end, name, strlen(name) + 1);
    return path;
}

// Whether the file is a library for this processor. The dynamic linker skips other files.
bool is_library(const char* path) {
    int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ElfW(Ehdr) header = {};
    ssize_t got = ::read(fd, &header, sizeof header);
    ::close(fd);
    ElfW(Ehdr) own = {};
#if defined(__x86_64__)
    own.e_machine = EM_X86_64;
#elif defined(__aarch64__)
    own.e_machine = EM_AARCH64;
#elif defined(__riscv)
    own.e_machine = EM_RISCV;
#endif
    constexpr int of_this_size = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
    return got == ssize_t(sizeof header) && !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
           header.e_ident[EI_CLASS] == of_this_size && header.e_machine == own.e_machine;
}

// The folders that the dynamic linker searches for a library that the object loads. Null: unknown.
Dl_serinfo* folders_of(link_map* object) {
    Dl_serinfo size;
    if (dlinfo(object, RTLD_DI_SERINFOSIZE, &size)) return nullptr;
    auto* folders = static_cast<Dl_serinfo*>(malloc(size.dls_size));
    if (!folders) return nullptr;
    folders->dls_size = size.dls_size;
    folders->dls_cnt = size.dls_cnt;
    if (dlinfo(object, RTLD_DI_SERINFO, folders) == 0) return folders;
    free(folders);
    return nullptr;
}

char* search(const char* name, link_map* caller) {
    Dl_serinfo* folders = folders_of(caller);
    if (!folders) return nullptr;
    char* found = nullptr;
    for (unsigned i = 0; i < folders->dls_cnt; i++) {
        const Dl_serpath& folder = folders->dls_serpath[i];
        if (folder.dls_flags & LA_SER_DEFAULT) break;
        char* path = joined(folder.dls_name, name);
        bool is_it = path && is_library(path);
        // The dynamic linker finds a file of LD_LIBRARY_PATH for any caller.
        if (is_it && !(folder.dls_flags & LA_SER_LIBPATH)) {
            found = path;
            break;
        }
        free(path);
        if (is_it) break;
    }
    free(folders);
    return found;
}

// A copy of text in which the folder stands for each $ORIGIN.
char* expanded(const char* text, const char* folder) {
    size_t size = strlen(text) + 1;
    for (const char* at = strchr(text, '$'); at; at = strchr(at + 1, '$')) size += strlen(folder);
    auto* copy = static_cast<char*>(malloc(size));
    if (!copy) return nullptr;
    char* end = copy;
    while (*text) {
        size_t length = !strncmp(text, "$ORIGIN", 7) ? 7 : !strncmp(text, "${ORIGIN}", 9) ? 9 : 0;
        // Other names may begin with this one.
        bool whole = length == 9 || (length == 7 && (text[7] == '/' || !text[7]));
        if (whole) {
            end = stpcpy(end, folder);
            text += length;
        } else {
            *end++ = *text++;
        }
    }
    *end = 0;
    return copy;
}

char* expanded_for(const char* text, link_map* caller) {
    auto* folder = static_cast<char*>(malloc(PATH_MAX));
    if (!folder) return nullptr;
    char* copy = dlinfo(caller, RTLD_DI_ORIGIN, folder) ? nullptr : expanded(text, folder);
    free(folder);
    return copy;
}

} // namespace

SearchPath::SearchPath(const char* file, const void* caller) : file_(file) {
    KeepErrno keep;
    if (!file || !*file) return;
    link_map* object = object_of(caller);
    if (!object) return;
    if (strchr(file, '/')) {
        if (strstr(file, "$ORIGIN") || strstr(file, "${ORIGIN}")) found_ = expanded_for(file, object);
        return;
    }
    loaded_ = is_soname_loaded(file);
    found_ = search(file, object); // another thread may unload the library meanwhile
}

SearchPath::~SearchPath() {
    KeepErrno keep;
    free(found_);
}

} // namespace fiberrt::posix
