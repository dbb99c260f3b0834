// SPDX-License-Identifier: MIT OR Apache-2.0
// Names of the functions on a stack, for dumps.
#pragma once

#include "base/arena.h"

#include <stdint.h>

namespace fiberrt {

// What is known of a return address.
struct Symbol {
    uint64_t hash;
    Symbol* child[4];
    uintptr_t pc;
    const char* name;       // null: not known
    uint64_t offset;        // of the address in this function
    const char* object;     // the file that has the function; null: not known
    uint64_t object_offset; // of the address in this file, as addr2line(1) and backtrace_symbols(3) have it
};

// Finds symbols, and keeps them.
class Symbols {
public:
    explicit Symbols(Arena& arena) : arena_(arena) {}

    // The symbol of a return address. Null: there is no memory.
    const Symbol* of(uintptr_t pc);

private:
    void find(Symbol& symbol);

    Arena& arena_;
    Symbol* found_ = nullptr;
};

// Whether the function is the library's own and no public one. In backtraces, such frames lie inside of a public call.
bool is_internal(const Symbol& symbol);

// The name of the function as a program knows it: fiber_read for fiberrt_fiber_read.
const char* name_for_people(const Symbol& symbol);

} // namespace fiberrt
