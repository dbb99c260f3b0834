// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions that replace imports of adopted libraries, by the names of the imports.
#pragma once

#include "posix/calls.h"

namespace fiberrt::posix {

struct Replacement {
    const char* name;
    void* function;
    bool stays = false; // after a release, too: it ends an action that another replacement may have begun
};

// Finds out whether this process is a simulation. Must be called before the first find_replacement().
void choose_replacements();

// The function that replaces the import of this name, or null if none does. The caller holds a lock.
const Replacement* find_replacement(const char* name);

// As find_replacement, for the functions that load libraries.
const Replacement* find_load(const char* name);

// The name of the C library's function that this function replaces outside a simulation; or null.
const char* name_of(const void* function);

constexpr int replacements_most = 0
#define X(function, name) +1
    FIBERRT_POSIX_CALLS(X) FIBERRT_POSIX_SIMULATED_ONLY(X)
#undef X
    ;

} // namespace fiberrt::posix
