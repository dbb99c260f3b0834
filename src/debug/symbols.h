// SPDX-License-Identifier: MIT OR Apache-2.0
// Names of the functions on a stack, for dumps.
#pragma once

#include "base/arena.h"
#include "debug/code_map.h"

#include <stdint.h>

namespace fiberrt {

// What is known of a return address.
struct Symbol {
    uint64_t hash;
    Symbol* child[4];
    uintptr_t pc;
    const char* name;            // as the linker has it; null: not known
    const char* name_for_people; // fiber_read for fiberrt_fiber_read, server::read for _ZN6server4readEi
    uint64_t offset;             // of the address in this function
    const char* object;          // the file that has the function; null: not known
    bool is_public;              // the function is one of fiberrt.h
    bool is_internal;            // it is another one of the library's
    uint64_t object_offset;      // of the address, as this file counts addresses: addr2line(1) takes it. 0: not known
};

// Finds symbols, and keeps them.
class Symbols {
public:
    explicit Symbols(Arena& arena) : arena_(arena), map_(arena) {}

    // The symbol of a return address. Null: there is no memory.
    const Symbol* of(uintptr_t pc);

private:
    void begin();
    void find(Symbol& symbol);

    Arena& arena_;
    CodeMap map_;
    bool begun_ = false;
    const CodeFile* library_ = nullptr; // the library's own file; null: it is part of the program
    Symbol* found_ = nullptr;
};

} // namespace fiberrt
