// SPDX-License-Identifier: MIT OR Apache-2.0
// Call frame information (CFI), as .eh_frame has it: the Linux Standard Base and the DWARF standard (version 5, section
// 6.4) describe the form.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace fiberrt {

// Reads the encoded values of CFI. After the end it returns zeros, and `bad` is set.
struct Cursor {
    const uint8_t* at;
    const uint8_t* end;
    bool bad = false;

    bool left() const { return at < end && !bad; }
    template <class T>
    T fixed() {
        T value{};
        if (size_t(end - at) < sizeof value) {
            bad = true;
            at = end;
        } else {
            memcpy(&value, at, sizeof value);
            at += sizeof value;
        }
        return value;
    }
    // A number in LEB128, unsigned or signed.
    uint64_t uleb() { return leb(false); }
    int64_t sleb() { return int64_t(leb(true)); }
    uint64_t leb(bool is_signed) {
        uint64_t value = 0;
        uint8_t byte;
        unsigned shift = 0;
        do {
            byte = fixed<uint8_t>();
            if (shift < 64) value |= uint64_t(byte & 0x7f) << shift;
            shift += 7;
        } while (byte & 0x80);
        if (is_signed && shift < 64 && byte & 0x40) value |= ~uint64_t(0) << shift;
        return value;
    }
    // Skips an address with this encoding (DW_EH_PE_*).
    void skip_address(uint8_t encoding) {
        switch (encoding & 0x0f) {
        case 0x00:
        case 0x04:
        case 0x0c: fixed<uint64_t>(); break;
        case 0x01: uleb(); break;
        case 0x09: sleb(); break;
        case 0x02:
        case 0x0a: fixed<uint16_t>(); break;
        case 0x03:
        case 0x0b: fixed<uint32_t>(); break;
        default: bad = true;
        }
        if (encoding == 0x50) bad = true; // aligned: no compiler uses it here
    }
    Cursor block() {
        uint64_t bytes = uleb();
        if (bytes > uint64_t(end - at)) {
            bad = true;
            bytes = 0;
        }
        Cursor inner = {at, at + bytes};
        at += bytes;
        return inner;
    }
};

// A function's CFI.
struct Cfi {
    Cursor common; // instructions that all functions of the CIE begin with
    Cursor own;    // instructions of this function
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_register;
    bool signal_frame;
    uintptr_t function;
};

// Finds the CFI of the function with this address. False: there is none, or it has an unknown form.
bool find_cfi(uintptr_t pc, Cfi* out);

} // namespace fiberrt
