// SPDX-License-Identifier: MIT OR Apache-2.0
// The registers of a frame, and a reader of the stack that it lies on.
#pragma once

#include "base/readable.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace fiberrt {

constexpr unsigned register_count = 33; // the others are not needed to find frames

struct Registers {
    uint64_t value[register_count];
    uint64_t known; // bits

    bool has(uint64_t n) const { return n < register_count && known >> n & 1; }
    void set(unsigned n, uint64_t v) {
        value[n] = v;
        known |= uint64_t(1) << n;
    }
    void forget(unsigned n) { known &= ~(uint64_t(1) << n); }
};

// Reads words of the stack, from a copy of the part around the last one.
class Reader {
public:
    void begin(const char* low, const char* top) {
        low_ = reinterpret_cast<uintptr_t>(low);
        top_ = top ? reinterpret_cast<uintptr_t>(top) : UINTPTR_MAX;
        size_ = 0;
    }
    bool read(uintptr_t address, void* to, size_t bytes) {
        if (address - from_ < size_ && size_ - (address - from_) >= bytes) {
            memcpy(to, copy_ + (address - from_), bytes);
            return true;
        }
        if (address < low_ || address >= top_ || top_ - address < bytes)
            return copy_readable(to, reinterpret_cast<const void*>(address), bytes) == ptrdiff_t(bytes);
        size_t wanted = top_ - address < sizeof copy_ ? top_ - address : sizeof copy_;
        ptrdiff_t copied = copy_readable(copy_, reinterpret_cast<const void*>(address), wanted);
        from_ = address;
        size_ = copied > 0 ? size_t(copied) : 0;
        if (size_ < bytes) return false;
        memcpy(to, copy_, bytes);
        return true;
    }
    bool word(uintptr_t address, uint64_t* out) { return read(address, out, sizeof *out); }

private:
    uintptr_t low_, top_;
    uintptr_t from_;
    size_t size_;
    alignas(8) unsigned char copy_[8192];
};

} // namespace fiberrt
