// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells what the kernel's io_uring offers to this process, as the backend finds it out: for fiberrt-doctor.
#pragma once

namespace fiberrt {

struct UringOffer {
    unsigned flags = 0;      // IORING_SETUP_*: the flags that the kernel accepted
    bool best_flags = false; // those are all flags that the backend wants
    bool ext_arg = false;    // waits with a timeout; the backend needs this and nodrop
    bool nodrop = false;     // completions are not lost when the queue is full
    bool futex_op = false;   // the doorbell needs no descriptor
    bool threads = false;    // the kernel may make threads for operations that block
};

// Makes a ring and fills *out. Returns 0; or -E..., why there is no ring: then only out->flags is valid, the last flags
// tried.
int uring_probe(UringOffer* out);

} // namespace fiberrt
