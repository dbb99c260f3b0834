// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_splice, and the splices of fiber_copy: move data between a pipe and another descriptor.
#pragma once

#include "io/descriptor_guard.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

namespace fiberrt {

// A splice operation with its output, in one object.
struct Splice {
    Op op;
    OutEnd out;

    Splice(int in, int64_t in_at, int out, int64_t out_at, size_t count, unsigned flags)
        : op(OpCode::splice, in), out{out, uint64_t(out_at)} {
        op.address = &this->out;
        op.offset = uint64_t(in_at);
        op.length = at_once(count);
        op.flags = flags;
        op.may_block = true; // a ring gets only those on a disk
    }
    Splice(const Splice&) = delete;
    Splice& operator=(const Splice&) = delete;

    // Runs the splice until it is not refused with -EAGAIN, waiting for the end that is not ready. from: the status of
    // the input, which is checked for a terminal; null: the input is no terminal.
    int64_t run(DescriptorGuard& guard, const struct stat* from = nullptr);

private:
    int64_t when_broken(int64_t result) const;
};

// Makes one splice. Offsets: null, or the positions to use, which this advances. flags: SPLICE_F_*.
int64_t splice_between(Cord& cord, int fd_in, int64_t* offset_in, int fd_out, int64_t* offset_out, size_t count,
                       unsigned flags);

} // namespace fiberrt
