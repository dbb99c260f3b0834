// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads ELF files. Nothing in them is trusted: each number that leads on is compared with the size of the file.
#include "debug/elf_functions.h"

#include "debug/file_reader.h"

#include <elf.h>
#include <string.h>

namespace fiberrt {

namespace {

constexpr uint32_t name_mask = (uint32_t(1) << 30) - 1;
constexpr size_t functions_most = size_t(1) << 23; // of one file

constexpr int rank_of(unsigned binding) { return binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2; }

// Of several names of a function, the exported one comes first.
bool before(const ElfFunction& one, const ElfFunction& other) {
    if (one.address != other.address) return one.address < other.address;
    return one.name < other.name; // the binding decides first
}

// A heap sort: the C library's sort allocates memory.
void sift(ElfFunction* heap, size_t at, size_t count) {
    ElfFunction moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(heap[child], heap[child + 1])) child++;
        if (!before(moved, heap[child])) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

void sort(ElfFunction* all, size_t count) {
    for (size_t i = count / 2; i-- > 0;) sift(all, i, count);
    while (count > 1) {
        count--;
        ElfFunction last = all[count];
        all[count] = all[0];
        all[0] = last;
        sift(all, 0, count);
    }
}

bool is_within(uint64_t offset, uint64_t size, uint64_t whole) { return offset <= whole && size <= whole - offset; }

// Whether the file could be opened, and is the one with this number.
bool is_file(const FileReader& file, ino_t inode, struct stat* status) {
    return file.is_open() && file.status(status) && S_ISREG(status->st_mode) && status->st_ino == inode;
}

bool read_segments(const FileReader& file, const Elf64_Ehdr& header, ElfFunctions& out) {
    for (unsigned i = 0; i < header.e_phnum && out.segment_count < ElfFunctions::segments_most; i++) {
        Elf64_Phdr segment;
        if (!file.read(header.e_phoff + i * sizeof segment, &segment, sizeof segment)) return false;
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
        out.segments[out.segment_count++] = {segment.p_offset, segment.p_filesz, segment.p_vaddr};
    }
    return true;
}

// Reads the functions of a table of symbols.
bool read_symbols(const FileReader& file, const Elf64_Shdr& section, Arena& arena, ElfFunctions& out) {
    constexpr size_t at_once = 32;
    Elf64_Sym some[at_once];
    size_t count = section.sh_size / sizeof *some;
    if (count > functions_most) return false;
    auto* functions = arena.make<ElfFunction>(count);
    if (!functions) return false;
    for (size_t i = 0; i < count; i += at_once) {
        size_t part = count - i < at_once ? count - i : at_once;
        if (!file.read(section.sh_offset + i * sizeof *some, some, part * sizeof *some)) return false;
        for (size_t j = 0; j < part; j++) {
            const Elf64_Sym& symbol = some[j];
            unsigned type = ELF64_ST_TYPE(symbol.st_info);
            // Functions written in assembly often lack the type, so dumps have no names for them.
            bool is_function = type == STT_FUNC || type == STT_GNU_IFUNC;
            if (!is_function || symbol.st_shndx == SHN_UNDEF || symbol.st_name > name_mask) continue;
            auto rank = uint32_t(rank_of(ELF64_ST_BIND(symbol.st_info)));
            uint32_t size = symbol.st_size < UINT32_MAX ? uint32_t(symbol.st_size) : UINT32_MAX;
            functions[out.count++] = {symbol.st_value, size, symbol.st_name | rank << 30};
        }
    }
    sort(functions, out.count);
    out.functions = functions;
    return true;
}

} // namespace

bool read_functions(const char* path, ino_t inode, Arena& arena, ElfFunctions& out) {
    out = {};
    FileReader file(path);
    struct stat status;
    Elf64_Ehdr header;
    if (!is_file(file, inode, &status)) return false;
    out.inode = inode;
    auto whole = uint64_t(status.st_size);
    if (!file.read(0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) return false;
    if (header.e_phentsize != sizeof(Elf64_Phdr) || !read_segments(file, header, out)) return false;
    if (header.e_shentsize != sizeof(Elf64_Shdr)) return true; // a file without sections
    Elf64_Shdr best = {};
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        if (!file.read(header.e_shoff + i * sizeof section, &section, sizeof section)) return true;
        bool fits = section.sh_type == SHT_SYMTAB || (section.sh_type == SHT_DYNSYM && best.sh_type != SHT_SYMTAB);
        if (fits && section.sh_entsize == sizeof(Elf64_Sym) && is_within(section.sh_offset, section.sh_size, whole))
            best = section;
    }
    Elf64_Shdr names;
    if (!best.sh_type || best.sh_link >= header.e_shnum) return true;
    if (!file.read(header.e_shoff + best.sh_link * sizeof names, &names, sizeof names)) return true;
    if (names.sh_type != SHT_STRTAB || !is_within(names.sh_offset, names.sh_size, whole)) return true;
    out.names = names.sh_offset;
    out.names_size = names.sh_size;
    if (!read_symbols(file, best, arena, out)) out.count = 0;
    return true;
}

bool address_in(const ElfFunctions& file, uint64_t offset, uint64_t* out) {
    for (int i = 0; i < file.segment_count; i++) {
        const ElfSegment& segment = file.segments[i];
        if (offset - segment.offset >= segment.size) continue;
        *out = segment.address + (offset - segment.offset);
        return true;
    }
    return false;
}

const ElfFunction* function_at(const ElfFunctions& file, uint64_t address) {
    size_t low = 0;
    size_t high = file.count;
    while (low < high) { // finds the first function behind the address
        size_t middle = low + (high - low) / 2;
        if (file.functions[middle].address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    // Of functions with the same address, the first; of a function in another one's middle, the inner one.
    const ElfFunction* found = nullptr;
    uint64_t begin = low ? file.functions[low - 1].address : 0;
    while (low > 0 && file.functions[low - 1].address == begin) {
        const ElfFunction& function = file.functions[--low];
        if (!function.size || address - begin < function.size) found = &function;
    }
    return found;
}

const char* name_of(const char* path, const ElfFunctions& file, const ElfFunction& function, Arena& arena) {
    constexpr size_t name_most = 512;
    char name[name_most];
    uint64_t at = function.name & name_mask;
    if (at >= file.names_size) return nullptr;
    FileReader reader(path);
    struct stat status;
    if (!is_file(reader, file.inode, &status)) return nullptr;
    size_t room = file.names_size - at < name_most - 1 ? file.names_size - at : name_most - 1;
    size_t bytes = reader.read_some(file.names + at, name, room);
    name[bytes] = '\0';
    size_t length = strlen(name);
    auto* kept = length ? arena.make<char>(length + 1) : nullptr;
    if (kept) memcpy(kept, name, length + 1);
    return kept;
}

} // namespace fiberrt
