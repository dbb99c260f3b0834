// SPDX-License-Identifier: MIT OR Apache-2.0
#include "debug/code_map.h"

#include "debug/file_reader.h"

#include <string.h>
#include <sys/sysmacros.h>

namespace fiberrt {

namespace {

// Reads the number at *at, and moves *at past it and the character after it.
uint64_t number(char** at, unsigned base) {
    uint64_t n = 0;
    for (;; ++*at) {
        char c = **at;
        unsigned digit = c >= '0' && c <= '9' ? unsigned(c - '0') : c >= 'a' && c <= 'f' ? unsigned(c - 'a') + 10 : 16;
        if (digit >= base) break;
        n = n * base + digit;
    }
    if (**at) ++*at;
    return n;
}

} // namespace

CodeFile* CodeMap::file_of(const char* path, dev_t device, ino_t inode) {
    for (CodeFile* file = files_; file; file = file->next) {
        if (file->device == device && file->inode == inode && strcmp(file->path, path) == 0) return file;
    }
    auto* file = arena_.make<CodeFile>();
    size_t bytes = strlen(path) + 1;
    auto* kept = arena_.make<char>(bytes);
    if (!file || !kept) return nullptr;
    memcpy(kept, path, bytes);
    file->next = files_;
    file->path = kept;
    file->device = device;
    file->inode = inode;
    return files_ = file;
}

// A line is "begin-end rwxp offset major:minor inode     path".
void CodeMap::add(char* at) {
    uintptr_t begin = number(&at, 16);
    uintptr_t end = number(&at, 16);
    if (strlen(at) < 5 || at[2] != 'x') return;
    at += 5;
    uint64_t offset = number(&at, 16);
    auto major = unsigned(number(&at, 16));
    auto minor = unsigned(number(&at, 16));
    auto inode = ino_t(number(&at, 10));
    while (*at == ' ') at++;
    auto* range = *at ? arena_.make<CodeRange>() : nullptr;
    if (!range) return;
    *range = {ranges_, begin, end, offset, file_of(at, makedev(major, minor), inode)};
    if (range->file) ranges_ = range;
}

void CodeMap::read() {
    read_ = true;
    FileReader maps("/proc/self/maps");
    if (!maps.is_open()) return;
    constexpr size_t line_most = 4096 + 128; // PATH_MAX and the numbers
    auto* buffer = arena_.make<char>(line_most + 1);
    if (!buffer) return;
    size_t kept = 0;
    for (uint64_t position = 0;;) {
        size_t got = maps.read_some(position, buffer + kept, line_most - kept);
        position += got;
        kept += got;
        char* line = buffer;
        while (auto* end = static_cast<char*>(memchr(line, '\n', kept - size_t(line - buffer)))) {
            *end = '\0';
            add(line);
            line = end + 1;
        }
        if (!got || line == buffer) return; // the end, or a line that is too long
        kept -= size_t(line - buffer);
        memmove(buffer, line, kept);
    }
}

const CodeRange* CodeMap::at(uintptr_t address) {
    if (!read_) read();
    for (CodeRange* range = ranges_; range; range = range->next) {
        if (address >= range->begin && address < range->end) return range;
    }
    return nullptr;
}

const ElfFunctions& CodeMap::functions_of(CodeFile& file) {
    if (!file.read && !read_functions(file.path, file.inode, arena_, file.functions)) file.functions = {};
    file.read = true;
    return file.functions;
}

} // namespace fiberrt
