// SPDX-License-Identifier: MIT OR Apache-2.0
// The remaining buffers of a transfer in several steps.
#pragma once

#include "posix/wait.h"

#include <sys/uio.h>

namespace fiberrt::posix {

// Reads the array of buffers only after a step has transferred bytes, because then the kernel has read the array. So
// the kernel, and not this class, reports a bad address.
class Rest {
public:
    Rest(const iovec* parts, size_t count) : parts_(parts), count_(count) {}
    Rest(const Rest&) = delete;
    Rest& operator=(const Rest&) = delete;

    size_t done() const { return done_; }
    bool empty() const { return !count_ || done_ >= transfer_most; }

    // The buffers of the next step: all remaining ones, or the rest of a partly transferred buffer.
    const iovec* parts() {
        if (!offset_) return parts_;
        size_t size = parts_->iov_len - offset_;
        size_t most = transfer_most - done_;
        cut_ = {static_cast<char*>(parts_->iov_base) + offset_, size < most ? size : most};
        return &cut_;
    }
    size_t count() const { return offset_ ? 1 : count_; }

    void advance(size_t bytes) {
        if (!bytes) return;
        done_ += bytes;
        while (count_ && bytes >= parts_->iov_len - offset_) {
            bytes -= parts_->iov_len - offset_;
            offset_ = 0;
            parts_++, count_--;
        }
        if (count_) offset_ += bytes;
    }

    // The result of a step that ends the call: the bytes done, or -1 if there are none and the step failed.
    ssize_t with(ssize_t result) const { return result >= 0 ? ssize_t(done_) + result : done_ ? ssize_t(done_) : -1; }

private:
    const iovec* parts_;
    size_t count_;
    size_t offset_ = 0; // the bytes of the first buffer that are transferred
    size_t done_ = 0;
    iovec cut_ = {};
};

} // namespace fiberrt::posix
