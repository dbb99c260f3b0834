// SPDX-License-Identifier: MIT OR Apache-2.0
// How many processors the cords may run on, all together. A thread's own set does not tell: threads are often bound to
// one each, and many of these run at the same time.
#pragma once

#include <atomic>
#include <sched.h>
#include <stdint.h>

namespace fiberrt {

struct Cord;

// The set of one cord's thread, as it was when that last looked. Relaxed: all that is made of it is a guess.
struct Processors {
    static constexpr int words = CPU_SETSIZE / 64;
    std::atomic<uint64_t> set[words];
};

// Looks at the thread's own set, which others may have changed, and counts anew.
void processors_count(Cord& cord);

} // namespace fiberrt
