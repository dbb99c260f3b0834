// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the dynamic section of a loaded object.
#include "posix/imports.h"

#include <unistd.h>

namespace fiberrt::posix {

Imports::Imports(const Object& object) : base_(object.base()) {
    const ElfW(Dyn)* dynamic = nullptr;
    for (int i = 0; i < object.header_count(); i++) {
        const ElfW(Phdr)& part = object.headers()[i];
        if (part.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(base_ + part.p_vaddr);
        if (part.p_type == PT_GNU_RELRO) {
            // The dynamic linker protects the whole pages of the range.
            uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
            uintptr_t begin = (base_ + part.p_vaddr) & -page;
            uintptr_t end = (base_ + part.p_vaddr + part.p_memsz) & -page;
            read_only_begin_ = begin;
            read_only_size_ = end > begin ? end - begin : 0;
        }
    }
    if (!dynamic) return;
    // The section has offsets. Where glibc can write to the section, it has replaced them by addresses.
    auto at = [&](ElfW(Addr) value) { return value < base_ ? base_ + value : value; };
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        ElfW(Addr) value = dynamic->d_un.d_ptr;
        switch (dynamic->d_tag) {
        case DT_SYMTAB: symbols_ = reinterpret_cast<const ElfW(Sym)*>(at(value)); break;
        case DT_STRTAB: names_ = reinterpret_cast<const char*>(at(value)); break;
        case DT_RELA: relocations_.first = reinterpret_cast<const ElfW(Rela)*>(at(value)); break;
        case DT_RELASZ: relocations_.bytes = dynamic->d_un.d_val; break;
        case DT_JMPREL: of_calls_.first = reinterpret_cast<const ElfW(Rela)*>(at(value)); break;
        case DT_PLTRELSZ: of_calls_.bytes = dynamic->d_un.d_val; break;
        case DT_VERSYM: versions_ = reinterpret_cast<const ElfW(Versym)*>(at(value)); break;
        case DT_VERNEED: needed_ = reinterpret_cast<const ElfW(Verneed)*>(at(value)); break;
        default: break;
        }
    }
}

bool Imports::is_import(const ElfW(Rela) & relocation) {
    switch (ELF64_R_TYPE(relocation.r_info)) {
#if defined(__x86_64__)
    case R_X86_64_JUMP_SLOT:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_64: return !relocation.r_addend;
#elif defined(__aarch64__)
    case R_AARCH64_JUMP_SLOT:
    case R_AARCH64_GLOB_DAT:
    case R_AARCH64_ABS64: return !relocation.r_addend;
#elif defined(__riscv)
    case R_RISCV_JUMP_SLOT:
    case R_RISCV_64: return !relocation.r_addend;
#else
#error "which relocations import functions here?"
#endif
    default: return false;
    }
}

bool Imports::is_of_calls(const ElfW(Rela) & relocation) {
#if defined(__x86_64__)
    return ELF64_R_TYPE(relocation.r_info) == R_X86_64_JUMP_SLOT;
#elif defined(__aarch64__)
    return ELF64_R_TYPE(relocation.r_info) == R_AARCH64_JUMP_SLOT;
#else
    return ELF64_R_TYPE(relocation.r_info) == R_RISCV_JUMP_SLOT;
#endif
}

const char* Imports::version_of(size_t symbol) const {
    if (!versions_ || !needed_) return nullptr;
    auto index = versions_[symbol] & 0x7fff;
    for (const ElfW(Verneed)* library = needed_;;) {
        const auto* at = reinterpret_cast<const char*>(library) + library->vn_aux;
        for (int i = 0; i < library->vn_cnt; i++) {
            const auto* version = reinterpret_cast<const ElfW(Vernaux)*>(at);
            if (version->vna_other == index) return names_ + version->vna_name;
            at += version->vna_next;
        }
        if (!library->vn_next) return nullptr;
        library = reinterpret_cast<const ElfW(Verneed)*>(reinterpret_cast<const char*>(library) + library->vn_next);
    }
}

} // namespace fiberrt::posix
