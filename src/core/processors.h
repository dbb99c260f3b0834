// SPDX-License-Identifier: MIT OR Apache-2.0
// The number of processors that all cords together may run on. A thread's own set does not tell it: threads are often
// bound to one each, and many of these run at the same time.
#pragma once

#include <atomic>
#include <sched.h>
#include <stdint.h>

namespace fiberrt {

struct Cord;

// The processors of one cord's thread, at the thread's last look. Relaxed: the count is only a guess.
struct Processors {
    static constexpr int words = CPU_SETSIZE / 64;
    std::atomic<uint64_t> set[words];
};

// Reads the thread's own set, which another thread may have changed, and counts again. core/inbox.cc calls it.
void processors_count(Cord& cord);

} // namespace fiberrt
