// SPDX-License-Identifier: MIT OR Apache-2.0
// The stacks of a cord, by size class, reused last in first out: the stack that was left last is warm in the cache.
//
//   low                                                        low + size
//   | guard page |  ... the fiber's frames, growing down ...  | 0-960 bytes unused |
//
// The unused bytes differ from stack to stack, so that the tops of many stacks do not fall on the same cache sets.
// No link is kept inside a stack: a fiber that ends gives its stack back while it still runs on it.
#pragma once

#include <bit>
#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

class StackPool {
public:
    static constexpr int least_bits = 14; // FIBER_STACK_MIN
    static constexpr int most_bits = 30;  // FIBER_STACK_MAX

    static constexpr size_t guard_size = 4096;

    // The class of stacks that hold size bytes; its stacks are 1 << (least_bits + class) bytes.
    static constexpr uint8_t class_for(size_t size) {
        int bits = int(std::bit_width(size - 1));
        return uint8_t(bits <= least_bits ? 0 : bits - least_bits);
    }
    static size_t size_of(uint8_t stack_class) { return size_t(1) << (least_bits + stack_class); }

    // A stack, guarded; null: there is no memory for one.
    char* take(uint8_t stack_class);
    void give_back(uint8_t stack_class, char* low);

    // Where the frames of a stack begin; a multiple of 16.
    static char* top(uint8_t stack_class, char* low) {
        size_t size = size_of(stack_class);
        return low + size - ((reinterpret_cast<uintptr_t>(low) >> (least_bits + stack_class)) & 15) * 64;
    }

    uint64_t in_use() const { return made_ - free_; }
    uint64_t free() const { return free_; }

    void release(); // unmaps all; nobody runs on any of them

private:
    struct Slab {
        Slab* next;
        char* memory;
        char* fresh; // from here on it was never used
        char* end;
        uint8_t stack_class;
    };
    struct Class {
        char** free;    // a stack of stacks; has room for every one that was made
        uint32_t count;
        uint32_t capacity;
        uint32_t made;
        Slab* newest; // the only one that may have fresh memory
    };

    bool grow(uint8_t stack_class);

    Class classes_[most_bits - least_bits + 1] = {};
    Slab* slabs_ = nullptr;
    uint64_t made_ = 0;
    uint64_t free_ = 0;
};

} // namespace fiberrt
