// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the characters of UTF-8 text.
#pragma once

#include <stdint.h>

namespace fiberrt {

// The bytes of the character that begins at `text`, which ends with a zero; 0: none begins there. (The Unicode standard,
// table 3-7.)
inline int bytes_of_character(const uint8_t* text) {
    uint8_t first = text[0];
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4) return 0;
    int bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < bytes; i++) {
        if (text[i] < low || text[i] > high) return 0; // the end of the text among them
        low = 0x80;
        high = 0xbf;
    }
    return bytes;
}

} // namespace fiberrt
