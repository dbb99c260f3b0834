// SPDX-License-Identifier: MIT OR Apache-2.0
// What the kernel's io_uring offers to this process, found out as the backend does: for fiberrt-doctor.
#pragma once

namespace fiberrt {

struct UringOffer {
    unsigned flags = 0;      // IORING_SETUP_*: of those that the backend would like, the ones that the kernel took,
    bool best_flags = false; // and these are all
    bool ext_arg = false;    // waits with a timeout; without these two there is no backend
    bool nodrop = false;     // completions are not lost when the queue is full
    bool futex_op = false;   // the doorbell needs no descriptor
    bool threads = false;    // the kernel may make threads for what blocks
};

// 0; or -E...: why there is no ring to be had. Then of the rest only flags are valid: the last that were tried.
int uring_probe(UringOffer* out);

} // namespace fiberrt
