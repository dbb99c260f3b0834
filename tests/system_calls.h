// SPDX-License-Identifier: MIT OR Apache-2.0
// system_calls.h - replaces the system calls by which stacks are made: counts them, and refuses them on demand.
//
// These definitions precede those of the C library in the test's program, also for the library under test, whether it
// is linked as objects or shared. Include this header in only one file of a program.
#ifndef FIBERRT_TESTS_SYSTEM_CALLS_H
#define FIBERRT_TESTS_SYSTEM_CALLS_H

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

namespace system_calls {

enum class Markers { real, refused, ignored }; // the outcome of MADV_GUARD_INSTALL

struct Control {
    size_t largest_mapping = SIZE_MAX;   // mmap refuses more
    size_t largest_commit = SIZE_MAX;    // mprotect that gives access to more is refused
    bool refuse_mprotect_guards = false; // mprotect that takes access away is refused
    bool refuse_memory = false;          // malloc and realloc return null
    Markers markers = Markers::real;
    long page_size = 0;                  // 0: the real one
    const char *max_map_count = nullptr; // a file to read instead of /proc/sys/vm/max_map_count
    const char *maps = nullptr;          // a file to read instead of /proc/self/maps

    int mmaps = 0, munmaps = 0, mprotects = 0, madvises = 0; // calls so far
    int maps_read = 0;                                       // times that /proc/self/maps was opened
    int calls() const { return mmaps + munmaps + mprotects + madvises + maps_read; }
};

inline Control control;

// ThreadSanitizer calls some of these before its own initialisation is complete.
#define INTERPOSED __attribute__((visibility("default"), no_sanitize_thread))

__attribute__((no_sanitize_thread)) inline long forward(long number, long a = 0, long b = 0, long c = 0, long d = 0,
                                                        long e = 0, long f = 0) {
    static long (*real)(long, ...);
    if (!real) real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
    return real(number, a, b, c, d, e, f);
}

inline int refuse(int error) {
    errno = error;
    return -1;
}

} // namespace system_calls

extern "C" {

INTERPOSED long syscall(long number, ...) noexcept {
    va_list list;
    va_start(list, number);
    long a[6];
    for (long &argument : a) argument = va_arg(list, long);
    va_end(list);
    if (number == SYS_openat) {
        auto *path = reinterpret_cast<const char *>(a[1]);
        auto &control = system_calls::control;
        if (strcmp(path, "/proc/sys/vm/max_map_count") == 0 && control.max_map_count) path = control.max_map_count;
        if (strcmp(path, "/proc/self/maps") == 0) {
            control.maps_read++;
            if (control.maps) path = control.maps;
        }
        a[1] = reinterpret_cast<long>(path);
    }
    return system_calls::forward(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

INTERPOSED void *mmap(void *address, size_t size, int rights, int flags, int fd, off_t offset) noexcept {
    system_calls::control.mmaps++;
    if (size > system_calls::control.largest_mapping) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return reinterpret_cast<void *>(
        system_calls::forward(SYS_mmap, reinterpret_cast<long>(address), long(size), rights, flags, fd, long(offset)));
}

INTERPOSED int munmap(void *address, size_t size) noexcept {
    system_calls::control.munmaps++;
    return int(system_calls::forward(SYS_munmap, reinterpret_cast<long>(address), long(size)));
}

INTERPOSED int mprotect(void *address, size_t size, int rights) noexcept {
    system_calls::control.mprotects++;
    if (rights == PROT_NONE && system_calls::control.refuse_mprotect_guards) return system_calls::refuse(ENOMEM);
    if (rights != PROT_NONE && size > system_calls::control.largest_commit) return system_calls::refuse(ENOMEM);
    return int(system_calls::forward(SYS_mprotect, reinterpret_cast<long>(address), long(size), rights));
}

INTERPOSED int madvise(void *address, size_t size, int advice) noexcept {
    system_calls::control.madvises++;
    if (advice == MADV_GUARD_INSTALL) {
        if (system_calls::control.markers == system_calls::Markers::refused) return system_calls::refuse(EINVAL);
        if (system_calls::control.markers == system_calls::Markers::ignored) return 0;
    }
    return int(system_calls::forward(SYS_madvise, reinterpret_cast<long>(address), long(size), advice));
}

long __sysconf(int name);

INTERPOSED long sysconf(int name) noexcept {
    if (name == _SC_PAGESIZE && system_calls::control.page_size) return system_calls::control.page_size;
    return __sysconf(name);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t size);
void *__libc_realloc(void *memory, size_t size);

INTERPOSED void *malloc(size_t size) noexcept {
    return system_calls::control.refuse_memory ? nullptr : __libc_malloc(size);
}

INTERPOSED void *realloc(void *memory, size_t size) noexcept {
    return system_calls::control.refuse_memory ? nullptr : __libc_realloc(memory, size);
}
#define FIBERRT_TEST_REFUSES_MEMORY 1
#else
#define FIBERRT_TEST_REFUSES_MEMORY 0 // the sanitizer has its own
#endif

} // extern "C"

#endif
