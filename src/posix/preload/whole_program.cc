// SPDX-License-Identifier: MIT OR Apache-2.0
// libfiberrt_posix.so: adopts the whole program when it is loaded, by -lfiberrt_posix or by fiberrt-run. It contains
// nothing of libfiberrt, so that a program never has two copies. If it finds no libfiberrt.so that fits, it prints one
// sentence, and the program runs as it would without this library.
#include "fiberrt.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <initializer_list>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {

constexpr int own_version = FIBERRT_VERSION_MAJOR * 10000 + FIBERRT_VERSION_MINOR * 100 + FIBERRT_VERSION_PATCH;
constexpr const char* core_name = "libfiberrt.so.1";
constexpr const char* own_name = "libfiberrt_posix.so";

void say(const char* text, const char* more = "") {
    fprintf(stderr, "libfiberrt_posix: %s%s; calls block as they do without it\n", text, more);
}

const char* base_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void* open_next_to_this() {
    Dl_info own;
    if (!dladdr(reinterpret_cast<void*>(say), &own) || !own.dli_fname) return nullptr;
    char path[PATH_MAX];
    int folder = int(base_name(own.dli_fname) - own.dli_fname);
    if (!folder) return nullptr;
    int length = snprintf(path, sizeof path, "%.*s%s", folder, own.dli_fname, core_name);
    return length < int(sizeof path) ? dlopen(path, RTLD_NOW) : nullptr;
}

// The program's libfiberrt.so; else the one next to this library; else the system's.
void* open_core() {
    void* core = dlopen(core_name, RTLD_NOW | RTLD_NOLOAD);
    if (!core) core = open_next_to_this();
    return core ? core : dlopen(core_name, RTLD_NOW);
}

struct Core {
    decltype(&fiber_posix_adopt) adopt = nullptr;
    decltype(&fiber_posix_each) each = nullptr;
    decltype(&fiber_sleep) sleep = nullptr;
    decltype(&fiber_strerror) text_of = nullptr;
};
Core core;

template <class Function>
bool find(void* library, const char* name, Function* out) {
    *out = reinterpret_cast<Function>(dlsym(library, name));
    return *out;
}

bool find_core() {
    void* library = open_core();
    if (!library) {
        const char* error = dlerror();
        say("libfiberrt.so.1 was not found: ", error ? error : "");
        return false;
    }
    decltype(&fiber_version) version;
    bool complete =
        find(library, "fiberrt_fiber_version", &version) && find(library, "fiberrt_fiber_posix_adopt", &core.adopt) &&
        find(library, "fiberrt_fiber_posix_each", &core.each) && find(library, "fiberrt_fiber_sleep", &core.sleep) &&
        find(library, "fiberrt_fiber_strerror", &core.text_of);
    if (complete && version() / 100 == own_version / 100) return true;
    char text[160];
    if (version)
        snprintf(text, sizeof text, "it is of release %d.%d, but the program's libfiberrt.so is of release %d.%d",
                 own_version / 10000, own_version / 100 % 100, version() / 10000, version() / 100 % 100);
    else
        snprintf(text, sizeof text, "the program's libfiberrt.so is another library");
    core.adopt = nullptr;
    say(text);
    return false;
}

bool is_set(const char* name) {
    const char* value = secure_getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

// Removes this library from LD_PRELOAD, so that the program's children run without it.
void leave_children_alone() {
    const char* value = secure_getenv("LD_PRELOAD");
    char* list = value ? strdup(value) : nullptr;
    char* rest = list ? static_cast<char*>(malloc(strlen(list) + 1)) : nullptr;
    if (rest) {
        char* end = rest;
        char* state = nullptr;
        for (char* one = strtok_r(list, ": ", &state); one; one = strtok_r(nullptr, ": ", &state)) {
            if (!strncmp(base_name(one), own_name, strlen(own_name))) continue;
            if (end != rest) *end++ = ':';
            size_t length = strlen(one);
            memcpy(end, one, length);
            end += length;
        }
        *end = 0;
        if (end != rest)
            setenv("LD_PRELOAD", rest, 1);
        else
            unsetenv("LD_PRELOAD");
    }
    free(rest);
    free(list);
    for (const char* name : {"FIBERRT_POSIX_ALONE", "FIBERRT_POSIX_CORD", "FIBERRT_POSIX_LIST"}) unsetenv(name);
}

int list_to = -1; // a copy of standard error, which programs may close before they end

void adopt_program() {
    if (!find_core()) return;
    int functions = core.adopt(nullptr, FIBER_POSIX_LATER);
    if (functions < 0) {
        say("the program could not be adopted: ", core.text_of(functions));
        core.adopt = nullptr;
        return;
    }
    if (is_set("FIBERRT_POSIX_LIST")) list_to = fcntl(2, F_DUPFD_CLOEXEC, 100);
    if (is_set("FIBERRT_POSIX_CORD")) {
        int error = core.sleep(0); // opens the thread's cord
        if (error < 0) say("the first thread gets no cord: ", core.text_of(error));
    }
}

// Whether fiberrt-run only checks that this library can be loaded.
bool is_checked() {
    const auto* checks = static_cast<const bool*>(dlsym(RTLD_DEFAULT, "fiberrt_run_checks"));
    return checks && *checks;
}

__attribute__((constructor)) void begin() {
    if (is_checked()) return;
    adopt_program();
    if (is_set("FIBERRT_POSIX_ALONE")) leave_children_alone(); // also if the program is not adopted
}

__attribute__((destructor)) void list_adopted() {
    if (list_to < 0) return;
    const char* last = nullptr;
    core.each(
        [](const char* library, const char* function, void* arg) {
            auto* last = static_cast<const char**>(arg);
            if (*last != library) dprintf(list_to, "%s%s:", *last ? "\n" : "", library);
            dprintf(list_to, " %s", function);
            *last = library;
            return 0;
        },
        &last);
    if (last) dprintf(list_to, "\n");
}

} // namespace

// The release, for debuggers and packagers.
extern "C" __attribute__((visibility("default"))) const int fiberrt_posix_release = own_version;
