// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds symbols by the maps of the process and the files that its code comes from.
#include "debug/symbols.h"

#include "debug/own_code.h"
#include "debug/plain_name.h"

#include <string.h>
#include <sys/auxv.h>

namespace fiberrt {

namespace {

constexpr size_t prefix_length = sizeof "fiberrt_" - 1; // of exported names: FIBERRT_LINKNAME

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

// Finds out whether the library is a separate file.
void Symbols::begin() {
    begun_ = true;
    const CodeRange* own = map_.at(reinterpret_cast<uintptr_t>(&is_own_name));
    const CodeRange* program = map_.at(getauxval(AT_ENTRY));
    if (own && program && own->file != program->file) library_ = own->file;
}

void Symbols::find(Symbol& symbol) {
    if (!symbol.pc) return;
    if (!begun_) begin();
    uintptr_t at = symbol.pc - 1; // within the call: a call may be the last instruction of a function
    const CodeRange* range = map_.at(at);
    if (!range) return;
    symbol.object = range->file->path;
    symbol.is_internal = range->file == library_;
    const ElfFunctions& file = map_.functions_of(*range->file);
    uint64_t address;
    if (!address_in(file, at - range->begin + range->offset, &address)) return;
    symbol.object_offset = address + 1;
    const ElfFunction* function = function_at(file, address);
    if (!function) return;
    symbol.offset = symbol.object_offset - function->address;
    symbol.name = name_of(range->file->path, file, *function, arena_);
    if (!symbol.name) return;
    symbol.is_public = is_public_name(symbol.name);
    symbol.name_for_people = symbol.is_public ? symbol.name + prefix_length : symbol.name;
    char plain[512];
    if (plain_name(symbol.name, plain, sizeof plain)) {
        if (auto* kept = arena_.make<char>(strlen(plain) + 1))
            symbol.name_for_people = static_cast<const char*>(memcpy(kept, plain, strlen(plain) + 1));
    }
    symbol.is_internal = !symbol.is_public && (symbol.is_internal || is_own_name(symbol.name));
}

} // namespace fiberrt
