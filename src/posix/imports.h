// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions that a loaded object imports, and the places where it stores their addresses.
#pragma once

#include "posix/objects.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

namespace fiberrt::posix {

struct Import {
    const char* name;
    const char* version; // that of the symbol, or null
    void** slot;         // an aligned word
    bool is_of_calls;    // only calls go through the slot, and the dynamic linker may bind it at the first one
};

class Imports {
public:
    explicit Imports(const Object& object);

    // Calls visit(const Import&) for each import.
    template <class Visit>
    void each(Visit visit) const {
        each_in(relocations_, visit);
        each_in(of_calls_, visit);
    }

    // The pages of the object that the dynamic linker has made read-only (PT_GNU_RELRO). The size is 0 if there are
    // none.
    uintptr_t read_only_begin() const { return read_only_begin_; }
    size_t read_only_size() const { return read_only_size_; }
    bool is_read_only(void** slot) const { return uintptr_t(slot) - read_only_begin_ < read_only_size_; }

private:
    struct Table {
        const ElfW(Rela) * first = nullptr;
        size_t bytes = 0;
    };
    static bool is_import(const ElfW(Rela) & relocation);
    static bool is_of_calls(const ElfW(Rela) & relocation);
    const char* version_of(size_t symbol) const;

    template <class Visit>
    void each_in(const Table& table, Visit visit) const {
        if (!symbols_ || !names_ || !table.first) return;
        for (size_t i = 0; i < table.bytes / sizeof *table.first; i++) {
            const ElfW(Rela)& relocation = table.first[i];
            if (!is_import(relocation)) continue;
            size_t symbol = ELF64_R_SYM(relocation.r_info);
            if (symbols_[symbol].st_shndx != SHN_UNDEF) continue; // the object's own function
            visit(Import{names_ + symbols_[symbol].st_name, version_of(symbol),
                         reinterpret_cast<void**>(base_ + relocation.r_offset), is_of_calls(relocation)});
        }
    }

    uintptr_t base_;
    const ElfW(Sym) * symbols_ = nullptr;
    const char* names_ = nullptr;
    Table relocations_;
    Table of_calls_; // the dynamic linker binds each at its first call, or all when it loads the object
    const ElfW(Versym) * versions_ = nullptr;
    const ElfW(Verneed) * needed_ = nullptr;
    uintptr_t read_only_begin_ = 0;
    size_t read_only_size_ = 0;
};

} // namespace fiberrt::posix
