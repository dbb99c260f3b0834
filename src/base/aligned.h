// SPDX-License-Identifier: MIT OR Apache-2.0
// Aligned memory whose alignment has been looked at. The allocator is the program's, and there are allocators that take
// a large alignment for a hint (mimalloc 2.0.9): a run queue computes places from its address, and would be corrupted.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

namespace fiberrt {

// Says on standard error, once, that the program's aligned_alloc is broken.
[[gnu::cold]] void alignment_missed(size_t alignment, const void* memory);

// As aligned_alloc; free() ends it. Null also if the memory is not aligned as asked for.
inline void* aligned_take(size_t alignment, size_t size) {
    void* memory = aligned_alloc(alignment, size);
    if ((reinterpret_cast<uintptr_t>(memory) & (alignment - 1)) == 0) [[likely]]
        return memory;
    alignment_missed(alignment, memory);
    free(memory);
    return nullptr;
}

} // namespace fiberrt
