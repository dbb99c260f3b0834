// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies a name into a field of fixed size.
#pragma once

#include <stddef.h>
#include <string.h>

namespace fiberrt {

// Copies as much of the name as fits, and ends it with a zero.
inline void copy_name(char* to, size_t size, const char* from) {
    size_t length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

} // namespace fiberrt
