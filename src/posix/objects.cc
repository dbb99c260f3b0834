// SPDX-License-Identifier: MIT OR Apache-2.0
// Lists the loaded objects, and holds them.
#include "posix/objects.h"

#include "posix/calls.h"
#include "posix/fork_mutexes.h"
#include "posix/imports.h"
#include "posix/note.h"
#include "posix/plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt::posix {

namespace {

const char* base_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool begins(const char* text, const char* start) { return !strncmp(text, start, strlen(start)); }

} // namespace

// The dynamic linker lists an object before it has relocated it. Opening it once more waits until that is done.
Object::Object(const char* path, uintptr_t base, const ElfW(Phdr) * headers, int count)
    : path_(path), base_(base), headers_(headers), header_count_(count) {
    if (begins(base_name(path), "linux-vdso")) return; // is not unloaded, but imports nothing
    handle_ = plain.dlopen(*path ? path : nullptr, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle_) return;
    link_map* map = nullptr;
    if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map->l_addr == base_) return;
    ::dlclose(handle_); // another object has the path now
    handle_ = nullptr;
}

Object::~Object() {
    if (handle_) ::dlclose(handle_);
}

const char* Object::path() const { return *path_ ? path_ : program_invocation_name; }

bool Object::contains(const void* address) const {
    for (int i = 0; i < header_count_; i++) {
        const ElfW(Phdr)& part = headers_[i];
        if (part.p_type == PT_LOAD && uintptr_t(address) - (base_ + part.p_vaddr) < part.p_memsz) return true;
    }
    return false;
}

bool Object::is_named(const char* name) const { return *path_ && posix::is_named(path_, name); }

bool is_named(const char* path, const char* name) {
    if (strchr(name, '/')) return !strcmp(path, name);
    const char* file = base_name(path);
    const char* suffix = strstr(name, ".so");
    size_t stem = suffix ? size_t(suffix - name) : strlen(name);
    if (strncmp(file, name, stem) != 0) return false;
    file += stem;
    if (*file == '-') file += 1 + strspn(file + 1, "0123456789abcdefABCDEF");
    if (!suffix) return *file == '.';
    return begins(file, suffix) && (!file[strlen(suffix)] || file[strlen(suffix)] == '.');
}

bool Object::is_of_the_system() const {
    static const char* const names[] = {"libc.so",  "ld-linux",     "ld-musl",    "libpthread.so", "libdl.so",
                                        "librt.so", "libresolv.",   "libnss_",    "libm.so",       "libfiberrt",
                                        "libev.so", "liburing",     "libasan",    "libtsan",       "libubsan",
                                        "liblsan",  "libclang_rt.", "linux-vdso", "libgcc_s.",     "libanl.so"};
    const char* file = base_name(path_);
    for (const char* name : names)
        if (begins(file, name)) return true;
    // An allocator's own locks are held only for moments, and the library allocates while it waits.
    return has_note(*this) || (!is_program() && defines("malloc"));
}

// A program that only takes a function's address may have an entry for calls of it, which is then the function's address
// everywhere.
bool Object::defines(const char* function) const {
    if (!contains(dlsym(handle_, function))) return false;
    bool imports_it = false;
    Imports(*this).each([&](const Import& one) { imports_it = imports_it || !strcmp(one.name, function); });
    return !imports_it;
}

// The library itself may be linked into the program, or into another library.
bool Object::is_this_library() const { return contains(reinterpret_cast<const void*>(&posix::read)); }

ObjectList::ObjectList() { each_object(add, this); }

ObjectList::~ObjectList() {
    for (size_t i = 0; i < count_; i++) free(entries_[i].path);
    free(entries_);
    (void)dlerror(); // an object that was unloaded meanwhile left a message
}

int ObjectList::add(dl_phdr_info* object, size_t, void* arg) {
    auto& list = *static_cast<ObjectList*>(arg);
    const char* path = object->dlpi_name ? object->dlpi_name : "";
    if (list.count_ && !*path) return 0; // only the first one is the program
    if (list.count_ == list.room_) {
        size_t room = list.room_ ? list.room_ * 2 : 64;
        auto* larger = static_cast<Entry*>(realloc(list.entries_, room * sizeof(Entry)));
        if (!larger) {
            list.no_memory_ = true;
            return 1;
        }
        list.entries_ = larger;
        list.room_ = room;
    }
    char* copy = strdup(path);
    if (!copy) {
        list.no_memory_ = true;
        return 1;
    }
    list.entries_[list.count_++] = {copy, object->dlpi_addr, object->dlpi_phdr, object->dlpi_phnum};
    return 0;
}

// The dynamic linker holds a lock meanwhile, which the child of a fork would find locked for ever.
int each_object(int (*visit)(dl_phdr_info* object, size_t size, void* arg), void* arg) {
    MutexGuard guard(mutex_of(Guarded::list_of_objects));
    return dl_iterate_phdr(visit, arg);
}

namespace {

// Facts of the C library about all objects: with the first object of the list.
dl_phdr_info counts_of_objects() {
    dl_phdr_info counts = {};
    each_object(
        [](dl_phdr_info* object, size_t size, void* arg) {
            bool has_counts = size >= offsetof(dl_phdr_info, dlpi_subs) + sizeof object->dlpi_subs;
            if (has_counts) memcpy(arg, object, size < sizeof *object ? size : sizeof *object);
            return 1;
        },
        &counts);
    return counts;
}

} // namespace

unsigned long long objects_loaded() { return counts_of_objects().dlpi_adds; }
unsigned long long objects_unloaded() { return counts_of_objects().dlpi_subs; }

namespace {

// The name that a library gives itself; null: it has none.
const char* soname_of(const dl_phdr_info& object) {
    const ElfW(Dyn)* dynamic = nullptr;
    for (int i = 0; i < object.dlpi_phnum; i++)
        if (object.dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    const char* names = nullptr;
    ElfW(Xword) at = 0;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SONAME) at = dynamic->d_un.d_val;
        if (dynamic->d_tag == DT_STRTAB) {
            ElfW(Addr) value = dynamic->d_un.d_ptr;
            names = reinterpret_cast<const char*>(value < object.dlpi_addr ? object.dlpi_addr + value : value);
        }
    }
    return names && at ? names + at : nullptr;
}

} // namespace

bool is_soname_loaded(const char* name) {
    return each_object(
        [](dl_phdr_info* object, size_t, void* arg) {
            const char* soname = soname_of(*object);
            return soname && !strcmp(soname, static_cast<const char*>(arg)) ? 1 : 0;
        },
        const_cast<char*>(name));
}

} // namespace fiberrt::posix
