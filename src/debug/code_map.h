// SPDX-License-Identifier: MIT OR Apache-2.0
// Which files the program's code was mapped from, as /proc/self/maps has it. The loader knows it too, but its functions
// take a lock that a thread may hold for ever (in a constructor of a library).
#pragma once

#include "base/arena.h"
#include "debug/elf_functions.h"

#include <stdint.h>

namespace fiberrt {

// A file that code was mapped from.
struct CodeFile {
    CodeFile* next;
    const char* path;
    dev_t device;
    ino_t inode;
    bool read; // `functions` has been tried
    ElfFunctions functions;
};

// A range of addresses with code.
struct CodeRange {
    CodeRange* next;
    uintptr_t begin;
    uintptr_t end;
    uint64_t offset; // of `begin` in the file
    CodeFile* file;
};

class CodeMap {
public:
    explicit CodeMap(Arena& arena) : arena_(arena) {}

    // The range with this address; null: there is none, or /proc/self/maps cannot be read.
    const CodeRange* at(uintptr_t address);

    // The functions of a file; they are read at the first call.
    const ElfFunctions& functions_of(CodeFile& file);

private:
    void read();
    void add(char* at);
    CodeFile* file_of(const char* path, dev_t device, ino_t inode);

    Arena& arena_;
    bool read_ = false;
    CodeRange* ranges_ = nullptr;
    CodeFile* files_ = nullptr;
};

} // namespace fiberrt
