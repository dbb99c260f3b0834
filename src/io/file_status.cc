// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells FIFOs of a file system from pipes.
#include "io/file_status.h"

#include <atomic>

namespace fiberrt {

namespace {

// The device of the file system that pipe(2) uses; 0: not known yet.
constinit std::atomic<dev_t> pipes{0}; // relaxed: every thread stores the same value

} // namespace

bool is_named_fifo(const struct stat& file) {
    if (type_of(file) != S_IFIFO) return false;
    dev_t device = pipes.load(std::memory_order_relaxed);
    if (!device) {
        KeepErrno keep;
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0) return false;
        device = status_of(ends[0]).st_dev;
        close(ends[0]);
        close(ends[1]);
        pipes.store(device, std::memory_order_relaxed);
    }
    return file.st_dev != device;
}

} // namespace fiberrt
