// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions to which the dynamic linker may bind an import.
#pragma once

#include "posix/objects.h"

namespace fiberrt::posix {

// A slot with another value was changed by the program, or by a tool that changes tables of functions, as this library
// does: adoption leaves such a slot alone.
struct Bindings {
    void* first = nullptr; // the one that the program's objects get: the C library's, or a wrapper (LD_PRELOAD)
    void* next = nullptr;  // the C library's. If `first` is the program's own entry for calls of it, calls get this one
    void* without_version = nullptr; // a wrapper's
    void* of_object = nullptr;       // the one that the object's own libraries have

    bool has(const void* function) const {
        return function &&
               (function == first || function == next || function == without_version || function == of_object);
    }
};

// Takes the lock of the dynamic linker. version: that of the import, or null.
Bindings bindings_of(const Object& object, const char* name, const char* version);

} // namespace fiberrt::posix
