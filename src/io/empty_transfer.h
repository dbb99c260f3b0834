// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers of no bytes. Most descriptors answer them at once, but each kind in its own way.
#pragma once

#include "io/descriptor_guard.h"

#include <stdint.h>
#include <sys/stat.h>
#include <sys/uio.h>

namespace fiberrt {

constexpr int64_t not_answered = INT64_MIN;

// Answers a transfer of no bytes, and one whose array of buffers cannot be read. not_answered: the transfer is neither,
// or the kernel will answer it. The descriptor is no file with positions, and for writes no socket.
int64_t answer_at_once(DescriptorGuard& guard, const Op& op, const struct stat& file);

bool all_empty(const iovec* iov, int count);

} // namespace fiberrt
