// SPDX-License-Identifier: MIT OR Apache-2.0
// Aligned memory, with a check of the alignment. The allocator is the program's, and some allocators treat a large
// alignment as a hint (mimalloc 2.0.9). A run queue, which computes places from its address, would be corrupted.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

namespace fiberrt {

// Reports on standard error, once, that the program's aligned_alloc is broken.
[[gnu::cold]] void alignment_missed(size_t alignment, const void* memory);

// Like aligned_alloc, but returns null if the memory is not aligned as asked for. The caller frees it by free().
inline void* aligned_allocate(size_t alignment, size_t size) {
    void* memory = aligned_alloc(alignment, size);
    if ((reinterpret_cast<uintptr_t>(memory) & (alignment - 1)) == 0) [[likely]]
        return memory;
    alignment_missed(alignment, memory);
    free(memory);
    return nullptr;
}

} // namespace fiberrt
