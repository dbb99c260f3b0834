// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes protobuf's wire format: a field is its number and its type, then its value. A message within a message has its
// length in front, which is known only at its end. Here the length always has two bytes, so a message may have 16383
// bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace fiberrt::trace {

class Proto {
public:
    // The caller gives as much memory as the message needs.
    explicit Proto(uint8_t* memory) : at_(memory) {}

    uint8_t* at() const { return at_; }

    void number(uint32_t field, uint64_t value) {
        varint(field << 3);
        varint(value);
    }
    void fixed64(uint32_t field, uint64_t value) {
        varint(field << 3 | 1);
        for (int i = 0; i < 8; i++) *at_++ = uint8_t(value >> 8 * i);
    }
    void float64(uint32_t field, double value) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        fixed64(field, bits);
    }
    void text(uint32_t field, const char* text, size_t length) {
        varint(field << 3 | 2);
        varint(length);
        memcpy(at_, text, length);
        at_ += length;
    }
    void text(uint32_t field, const char* text_) { text(field, text_, strlen(text_)); }

    // begin() returns what end() needs.
    uint8_t* begin(uint32_t field) {
        varint(field << 3 | 2);
        at_ += 2;
        return at_;
    }
    void end(uint8_t* begun) {
        auto length = size_t(at_ - begun);
        begun[-2] = uint8_t(length | 0x80);
        begun[-1] = uint8_t(length >> 7);
    }

private:
    void varint(uint64_t value) {
        for (; value >= 0x80; value >>= 7) *at_++ = uint8_t(value | 0x80);
        *at_++ = uint8_t(value);
    }

    uint8_t* at_;
};

} // namespace fiberrt::trace
