// SPDX-License-Identifier: MIT OR Apache-2.0
// Opens of FIFOs, which wait for the other side, where no thread of the kernel's waits for us: on libev, and where the
// kernel can make no thread.
#pragma once

#include "base/list.h"
#include "io/op.h"

#include <stdint.h>

namespace fiberrt {

class DescriptorUse;

// What an open that waits holds meanwhile: listed in its cord's Io, which closes it if the fiber never runs again.
struct FifoOpen : Link {
    int pin = -1; // names the FIFO, whatever becomes of its path and of the current directory
    int fd = -1;

    FifoOpen() = default;
    ~FifoOpen();
    FifoOpen(const FifoOpen&) = delete;
    FifoOpen& operator=(const FifoOpen&) = delete;
    void close_all();
};

// Performs an open that was found to be one of a FIFO and would have blocked its thread (-EAGAIN): the fiber waits. A
// descriptor, or -E...; -EAGAIN: by now the path names something else.
int64_t open_fifo(DescriptorUse& use, const Op& op);

// Performs an open or open2, which waits where it opens a FIFO whose other side is not there.
int64_t run_open(DescriptorUse& use, Op& op);

} // namespace fiberrt
