// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_copy: copies from one descriptor to another, until the end of the input or a limit.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;

// Copies at most `limit` bytes. Returns how many, or why it ended early. *written: how many bytes were written. *lost:
// how many bytes were read and could not be written. Both pointers may be null.
int64_t copy_to_end(Cord& cord, int fd_in, int fd_out, int64_t limit, int64_t* written, int64_t* lost);

} // namespace fiberrt
