// SPDX-License-Identifier: MIT OR Apache-2.0
// The file, pipe or socket that a trace is written to. The first error ends the writing and is kept: the rest of the
// trace is dropped.
#pragma once

#include "base/relaxed.h"

#include <stddef.h>
#include <stdint.h>

namespace fiberrt::trace {

class Out {
public:
    // Takes the descriptor, which close() closes.
    void open(int fd);
    void close();

    // Writes all of it. Waits for a reader that does not read, without a limit until hurry() sets one.
    void write(const uint8_t* bytes, size_t size);

    // From now on, writes wait for at most this long in all, then fail with -ETIMEDOUT. Any thread may call it.
    void hurry(int64_t most_ns);

    int error() const { return error_; } // 0, or why nothing more is written
    uint64_t written() const { return written_; }

private:
    bool await_room();

    int fd_ = -1;
    bool is_socket_;
    bool waits_; // a write may wait for a reader
    Relaxed<int> error_;
    Relaxed<int64_t> left_; // how long writes may still wait, in nanoseconds; INT64_MAX: for ever
    Relaxed<uint64_t> written_;
};

} // namespace fiberrt::trace
