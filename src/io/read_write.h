// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_read, fiber_write and their relatives: each picks the way of transfer that its descriptor needs.
#pragma once

#include "io/descriptor_guard.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

namespace fiberrt {

// Read or write bytes. code: read or readv; write or writev. position: own_position, or the position of pread and
// pwrite.
// (The parameters of the public calls come first, so that these can jump here.)
int64_t read_bytes(int fd, const void* address, size_t length, int64_t position, OpCode code, Cord& cord);
int64_t write_bytes(int fd, const void* address, size_t length, int64_t position, OpCode code, Cord& cord);

// Performs a read or readv that needs no position lock: until_ready(), with the special cases of descriptors that
// are neither files nor sockets.
int64_t run_read(DescriptorGuard& guard, Op& op, const struct stat& file);

} // namespace fiberrt
