// SPDX-License-Identifier: MIT OR Apache-2.0
// The iovecs of a read or write, for the files that make the system calls: checks, counts and cuts them.
#pragma once

#include "base/readable.h"
#include "io/op.h"

#include <stddef.h>
#include <sys/uio.h>

namespace fiberrt {

// A terminal that is ready has room for this many bytes, even if each becomes two. With more, the write could wait in
// the middle for ever.
constexpr size_t terminal_room = 128;

struct Iovecs {
    iovec one;
    const iovec* iov = &one;
    int count = 1;

    explicit Iovecs(const Op& op) : one{op.address, op.length} {
        if (op.code != OpCode::readv && op.code != OpCode::writev) return;
        iov = static_cast<const iovec*>(op.address);
        count = int(op.length);
    }
    Iovecs(const Iovecs&) = delete;
    Iovecs& operator=(const Iovecs&) = delete;

    // Returns -EFAULT if the array of buffers cannot be read. Call this before the library reads the array, unless the
    // kernel has read it in the same call.
    int check() const { return iov == &one ? 0 : check_readable(iov, size_t(count) * sizeof *iov); }

    size_t bytes() const {
        size_t sum = 0;
        for (int i = 0; i < count; i++) sum += iov[i].iov_len;
        return sum;
    }

    // Cuts the transfer to at most `most` bytes: whole buffers, or a part of the first that is not empty.
    void cut(size_t most) {
        if (bytes() <= most) return;
        while (iov->iov_len == 0) iov++, count--;
        if (iov->iov_len > most) {
            one = {iov->iov_base, most};
            iov = &one;
            count = 1;
        }
        while (bytes() > most) count--;
    }
};

} // namespace fiberrt
