// SPDX-License-Identifier: MIT OR Apache-2.0
// A note in each file that contains this library: the shared library, and programs and libraries that were linked with
// the archive. A copy of the library finds the others by their notes.
#include "posix/note.h"

#include <string.h>

namespace fiberrt::posix {

namespace {

struct ElfNote {
    ElfW(Nhdr) header;
    char owner[8];
};

__attribute__((section(".note.fiberrt"), used, aligned(4)))
const ElfNote note = {{sizeof(ElfNote::owner), 0, 1}, "fiberrt"};

constexpr size_t padded(size_t size) { return (size + 3) & ~size_t(3); }

bool is_among(const char* notes, size_t size) {
    while (size >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) header;
        memcpy(&header, notes, sizeof header);
        size_t whole = sizeof header + padded(header.n_namesz) + padded(header.n_descsz);
        if (whole > size) return false;
        if (header.n_namesz == sizeof note.owner && !memcmp(notes + sizeof header, note.owner, sizeof note.owner))
            return true;
        notes += whole;
        size -= whole;
    }
    return false;
}

} // namespace

bool has_note(const Object& object) {
    for (int i = 0; i < object.header_count(); i++) {
        const ElfW(Phdr)& part = object.headers()[i];
        // Notes of eight bytes' alignment are the processor's properties.
        if (part.p_type != PT_NOTE || part.p_align > 4) continue;
        if (is_among(reinterpret_cast<const char*>(object.base() + part.p_vaddr), part.p_memsz)) return true;
    }
    return false;
}

} // namespace fiberrt::posix
