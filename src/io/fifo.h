// SPDX-License-Identifier: MIT OR Apache-2.0
// Opens of FIFOs, which wait for the other side, for fiber_open and the like. Needed where the kernel has no thread
// that waits for us: on libev, and where it can make no thread.
#pragma once

#include "base/list.h"
#include "io/op.h"

#include <stdint.h>

namespace fiberrt {

class DescriptorGuard;

// The descriptors that an open holds while it waits. It is listed in the cord's Io, which closes them if the fiber
// never runs again.
struct FifoOpen : Link {
    int pin = -1; // O_PATH: names the FIFO even if its path or the current directory changes
    int fd = -1;

    FifoOpen() = default;
    ~FifoOpen();
    FifoOpen(const FifoOpen&) = delete;
    FifoOpen& operator=(const FifoOpen&) = delete;
    void close_all();
};

// Performs an open that returned -EAGAIN because it would wait for a FIFO's other side: the fiber waits instead of the
// thread. Returns a descriptor, or -E...; -EAGAIN: the path now names something else.
int64_t open_fifo(DescriptorGuard& guard, const Op& op);

// Performs an open or open2, which waits if it opens a FIFO whose other side is missing.
int64_t run_open(DescriptorGuard& guard, Op& op);

} // namespace fiberrt
