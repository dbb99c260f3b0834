// SPDX-License-Identifier: MIT OR Apache-2.0
// A shared library's code has its own range of addresses. If the library is part of the program (libfiberrt.a), the
// names of the functions tell which code is its own.
#include "debug/own_code.h"

#include "base/mutex.h"
#include "debug/code_map.h"

#include <new>
#include <string.h>
#include <sys/auxv.h>

namespace fiberrt {

namespace {

bool begins_with(const char* text, const char* begin) { return strncmp(text, begin, strlen(begin)) == 0; }

struct KnownAddress {
    uint64_t hash;
    KnownAddress* child[4];
    uintptr_t address;
    bool own;
};

// What is known of the code, in memory that is never freed.
struct OwnCode {
    Arena arena;
    CodeMap map{arena};
    const CodeFile* file = nullptr; // the file that has the library
    bool is_program = false;        // this file has the program, too
    KnownAddress* known = nullptr;
};

constinit pthread_mutex_t own_code_mutex = PTHREAD_MUTEX_INITIALIZER; // protects all of it
OwnCode* own_code;
alignas(OwnCode) unsigned char own_code_memory[sizeof(OwnCode)];

bool has_own_name(const CodeRange& range, uintptr_t address) {
    OwnCode& code = *own_code;
    const ElfFunctions& functions = code.map.functions_of(*range.file);
    uint64_t at;
    if (!address_in(functions, address - range.begin + range.offset, &at)) return false;
    const ElfFunction* function = function_at(functions, at);
    const char* name = function ? name_of(range.file->path, functions, *function, code.arena) : nullptr;
    return name && is_own_name(name);
}

} // namespace

bool is_public_name(const char* name) {
    return begins_with(name, "fiberrt_fiber_") && strcmp(name, "fiberrt_fiber_ended") != 0;
}

bool is_own_name(const char* name) {
    return begins_with(name, "_ZN7fiberrt") || begins_with(name, "_ZNK7fiberrt") || begins_with(name, "fiberrt_");
}

bool own_code_begin() {
    MutexGuard guard(own_code_mutex);
    if (own_code) return true;
    auto* code = new (own_code_memory) OwnCode;
    const CodeRange* own = code->map.at(reinterpret_cast<uintptr_t>(&is_own_name));
    const CodeRange* program = code->map.at(getauxval(AT_ENTRY));
    code->file = own ? own->file : nullptr;
    code->is_program = own && program && own->file == program->file;
    own_code = code;
    return true;
}

bool is_own_code(uintptr_t address) {
    MutexGuard guard(own_code_mutex);
    OwnCode& code = *own_code;
    const CodeRange* range = code.map.at(address);
    if (!range || range->file != code.file) return false;
    if (!code.is_program) return true;
    uint64_t hash = hash_step(0, address);
    KnownAddress** place =
        trie_place(&code.known, hash, [=](const KnownAddress& one) { return one.address == address; });
    if (!*place) {
        auto* known = code.arena.make<KnownAddress>();
        if (!known) return false; // coverage: no memory
        known->hash = hash;
        known->address = address;
        known->own = has_own_name(*range, address);
        *place = known;
    }
    return (*place)->own;
}

void own_code_lock() { pthread_mutex_lock(&own_code_mutex); }
void own_code_unlock() { pthread_mutex_unlock(&own_code_mutex); }

} // namespace fiberrt
