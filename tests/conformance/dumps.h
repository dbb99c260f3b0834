// SPDX-License-Identifier: MIT OR Apache-2.0
// What tests of dumps share: a dump as a text, and a handle as dumps print it.
#pragma once

#include "io_support.h"

#include <cinttypes>
#include <cstdio>
#include <sys/mman.h>

#include <array>
#include <string>

namespace support {

inline std::string hex(uint64_t id) {
    std::array<char, 24> text{};
    std::snprintf(text.data(), text.size(), "0x%016" PRIx64, id);
    return text.data();
}

inline std::string dumped(unsigned flags) {
    Descriptor file(::memfd_create("dump", MFD_CLOEXEC));
    EXPECT_EQ(fiber_dump_as(file, flags), 0);
    std::string text(static_cast<size_t>(::lseek(file, 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
}

} // namespace support
