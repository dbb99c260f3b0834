// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds symbols by the loader's tables.
#include "debug/symbols.h"

#include <dlfcn.h>
#include <string.h>

namespace fiberrt {

namespace {

constexpr char prefix[] = "fiberrt_"; // of exported names: FIBERRT_LINKNAME
constexpr size_t prefix_length = sizeof prefix - 1;

bool begins_with(const char* text, const char* begin) { return strncmp(text, begin, strlen(begin)) == 0; }

bool is_public(const char* name) { return begins_with(name, "fiberrt_fiber_") && strcmp(name, "fiberrt_fiber_ended") != 0; }

} // namespace

const Symbol* Symbols::of(uintptr_t pc) {
    uint64_t hash = hash_step(0, pc);
    Symbol** place = trie_place(&found_, hash, [pc](const Symbol& symbol) { return symbol.pc == pc; });
    if (*place) return *place;
    auto* symbol = arena_.make<Symbol>();
    if (!symbol) return nullptr;
    symbol->hash = hash;
    symbol->pc = pc;
    find(*symbol);
    *place = symbol;
    return symbol;
}

void Symbols::find(Symbol& symbol) {
    Dl_info info;
    // Within the call: a call may be the last instruction of a function.
    if (!symbol.pc || !dladdr(reinterpret_cast<void*>(symbol.pc - 1), &info)) return;
    symbol.object = info.dli_fname;
    symbol.object_offset = symbol.pc - reinterpret_cast<uintptr_t>(info.dli_fbase);
    if (!info.dli_sname) return;
    symbol.name = info.dli_sname;
    symbol.offset = symbol.pc - reinterpret_cast<uintptr_t>(info.dli_saddr);
}

bool is_internal(const Symbol& symbol) {
    if (!symbol.name) {
        static const char* own_object = nullptr;
        Dl_info info;
        if (!own_object && dladdr(reinterpret_cast<void*>(&begins_with), &info)) own_object = info.dli_fname;
        return symbol.object && own_object && strcmp(symbol.object, own_object) == 0;
    }
    return begins_with(symbol.name, "_ZN7fiberrt") || begins_with(symbol.name, "_ZNK7fiberrt") ||
           (begins_with(symbol.name, prefix) && !is_public(symbol.name));
}

const char* name_for_people(const Symbol& symbol) {
    return is_public(symbol.name) ? symbol.name + prefix_length : symbol.name;
}

} // namespace fiberrt
