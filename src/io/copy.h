// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies from one descriptor to another, to the end.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;

// Copies at most `limit` bytes: how many, or why it ended early. *written: how many were written; *lost: how many were
// taken and could not be; either may be null.
int64_t copy_to_end(Cord& cord, int fd_in, int fd_out, int64_t limit, int64_t* written, int64_t* lost);

} // namespace fiberrt
