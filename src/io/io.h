// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord's I/O: its backend, opened at the first operation, and its operations under way, by descriptor.
#pragma once

#include "base/list.h"
#include "io/backend.h"
#include "io/op.h"

#include <stdint.h>

namespace fiberrt {

struct Io : CordIo {
    // The operations on one descriptor, and the fiber_close of it that waits for their end.
    struct Descriptor {
        List<Op> ops;
        Wait* closer = nullptr;
    };

    List<Op> unbound; // operations on no descriptor
    Descriptor** descriptors = nullptr; // by number, made when first used
    int descriptor_count = 0;
};

// Runs one operation for the current fiber, parked until it is done. Fails before giving it to the backend with what
// stands in the way of the fiber (attend), -ENOTSUP, -ENOMEM or -EBADF.
int64_t io_run(Cord& cord, Op& op);

// fiber_close: ends what is under way on fd, then closes it. Nothing ends it early.
int io_close(Cord& cord, int fd);

} // namespace fiberrt
