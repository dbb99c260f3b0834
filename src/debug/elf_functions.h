// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of a program or a shared library, read from its file.
#pragma once

#include "base/arena.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

namespace fiberrt {

// A part of the file that is mapped as code.
struct ElfSegment {
    uint64_t offset; // in the file
    uint64_t size;
    uint64_t address; // as the file has it: what addr2line(1) expects
};

struct ElfFunction {
    uint64_t address;
    uint32_t size; // 0: not known
    uint32_t name; // its place in the file's table of names, with the binding in the highest two bits
};

// The file's table of symbols (.symtab) or, if it has been stripped, that of its exported ones (.dynsym).
struct ElfFunctions {
    static constexpr int segments_most = 8;
    ElfSegment segments[segments_most];
    int segment_count;
    const ElfFunction* functions; // by ascending addresses
    size_t count;
    uint64_t names; // where the table of names lies in the file
    uint64_t names_size;
    ino_t inode; // of the file
};

// Reads the file. inode: of the file that is mapped; while it is mapped, no other file there gets that
// number. (Its device tells nothing: overlayfs and btrfs have another one for /proc/self/maps than for stat.) False:
// there is another file at the path by now, or it cannot be read.
bool read_functions(const char* path, ino_t inode, Arena& arena, ElfFunctions& out);

// The address, as the file has it, of a place in the file. False: no code lies there.
bool address_in(const ElfFunctions& file, uint64_t offset, uint64_t* out);

// The function that contains this address; null: none does.
const ElfFunction* function_at(const ElfFunctions& file, uint64_t address);

// Its name, in the arena. Null: it cannot be read, or there is another file at the path by now.
const char* name_of(const char* path, const ElfFunctions& file, const ElfFunction& function, Arena& arena);

} // namespace fiberrt
