// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads numbers from text. The C library's strtoul and its like are not used: headers of glibc 2.38 and newer turn them
// into symbols that older C libraries lack.
#pragma once

#include <stdint.h>

namespace fiberrt {

// Reads decimal digits at *text and moves *text behind them. False if there is no digit or the number exceeds 64 bits.
inline bool parse_decimal(const char** text, uint64_t* out) {
    const char* at = *text;
    *out = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, unsigned(*at - '0'), out))
            return false;
    }
    bool any = at != *text;
    *text = at;
    return any;
}

// Returns the number that the hexadecimal digits at text make; blanks before them are skipped. The kernel wrote the
// text, so there is no check for overflow.
inline uint64_t parse_hexadecimal(const char* text) {
    while (*text == ' ' || *text == '\t') text++;
    uint64_t value = 0;
    for (;; text++) {
        int digit = *text >= '0' && *text <= '9' ? *text - '0' : *text >= 'a' && *text <= 'f' ? *text - 'a' + 10 : -1;
        if (digit < 0) return value;
        value = value << 4 | unsigned(digit);
    }
}

} // namespace fiberrt
