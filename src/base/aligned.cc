// SPDX-License-Identifier: MIT OR Apache-2.0
// The report about an allocator that does not align.
#include "base/aligned.h"

#include "base/keep_errno.h"
#include "base/report.h"

#include <atomic>
#include <unistd.h>

namespace fiberrt {

void alignment_missed(size_t alignment, const void* memory) {
    static std::atomic<int> said{0}; // RISC-V exchanges no single byte
    if (said.exchange(1, std::memory_order_relaxed)) return;
    KeepErrno keep;
    Report r(STDERR_FILENO, Report::unasked_ns);
    r.put("fiberrt: the program's aligned_alloc gave memory at 0x");
    r.number(reinterpret_cast<uintptr_t>(memory), 16);
    r.put(", which is not aligned to the ");
    r.number(alignment);
    r.put(" bytes that were asked for: calls fail with -ENOMEM. Use another allocator, or another release of it.\n");
    r.end();
}

} // namespace fiberrt
