// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trace/known.h"

#include <string.h>
#include <sys/mman.h>

namespace fiberrt::trace {

Known* KnownFibers::at(uint64_t id) {
    uint32_t index = id_index(id);
    Known*& chunk = chunks_[index >> chunk_bits];
    if (!chunk) {
        void* memory =
            mmap(nullptr, chunk_size * sizeof(Known), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return nullptr;
        chunk = static_cast<Known*>(memory);
        if (index >> chunk_bits >= chunks_end_) chunks_end_ = (index >> chunk_bits) + 1;
    }
    return &chunk[index & (chunk_size - 1)];
}

void KnownFibers::empty() {
    for (uint32_t i = 0; i < chunks_end_; i++) {
        if (chunks_[i]) munmap(chunks_[i], chunk_size * sizeof(Known));
        chunks_[i] = nullptr;
    }
    chunks_end_ = 0;
}

} // namespace fiberrt::trace
