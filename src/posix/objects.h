// SPDX-License-Identifier: MIT OR Apache-2.0
// The loaded objects: the program and its libraries.
#pragma once

#include <link.h>
#include <stddef.h>
#include <stdint.h>

namespace fiberrt::posix {

// Whether a file is the library of this name. "libpq" and "libpq.so" are also libpq.so.5, and libpq-1a2b3c.so.5, as the
// tool that bundles libraries into Python wheels calls it. A name with a slash is the whole path.
bool is_named(const char* path, const char* name);

// A loaded object. The dynamic linker has loaded it completely, and does not unload it while the Object lives.
class Object {
public:
    Object(const char* path, uintptr_t base, const ElfW(Phdr) * headers, int count);
    ~Object();
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    explicit operator bool() const { return handle_; } // false: it was unloaded meanwhile

    uintptr_t base() const { return base_; }
    const ElfW(Phdr) * headers() const { return headers_; }
    int header_count() const { return header_count_; }
    const char* path() const; // the file's path; of the program, the name by which it was started
    void* handle() const { return handle_; }
    bool is_program() const { return !*path_; }

    // Whether the address lies in a segment of the object.
    bool contains(const void* address) const;
    bool is_named(const char* name) const;
    // Whether the object is or contains libfiberrt, or is part of the C library, a library with an allocator, or a
    // sanitizer's runtime. The adoption of a whole program leaves such objects alone: a fiber that waited inside one
    // would hold its locks.
    bool is_of_the_system() const;
    bool defines(const char* function) const;
    bool is_this_library() const;

private:
    const char* path_;
    uintptr_t base_;
    const ElfW(Phdr) * headers_;
    int header_count_;
    void* handle_ = nullptr;
};

// A list of the objects loaded at one moment.
class ObjectList {
public:
    ObjectList();
    ~ObjectList();
    ObjectList(const ObjectList&) = delete;
    ObjectList& operator=(const ObjectList&) = delete;
    bool complete() const { return !no_memory_; }

    // Calls visit(const Object&) for each object that is still loaded. Holds no lock of the dynamic linker meanwhile.
    // Each object has been loaded completely, unless the calling thread is the one that is loading it.
    template <class Visit>
    void each(Visit visit) const {
        for (size_t i = 0; i < count_; i++) {
            Object object(entries_[i].path, entries_[i].base, entries_[i].headers, entries_[i].header_count);
            if (object) visit(object);
        }
    }

private:
    struct Entry {
        char* path; // empty: the program
        uintptr_t base;
        const ElfW(Phdr) * headers;
        int header_count;
    };
    static int add(dl_phdr_info* object, size_t, void* arg);

    Entry* entries_ = nullptr;
    size_t count_ = 0;
    size_t room_ = 0;
    bool no_memory_ = false;
};

// The number of objects that have been loaded since the process began. 0: the C library does not count them.
unsigned long long objects_loaded();

// How many objects have been unloaded since the process began.
unsigned long long objects_unloaded();

// dl_iterate_phdr, such that the child of a fork during the call can list its objects, too.
int each_object(int (*visit)(dl_phdr_info* object, size_t size, void* arg), void* arg);

// Whether an object with this DT_SONAME is loaded.
bool is_soname_loaded(const char* name);

} // namespace fiberrt::posix
