// SPDX-License-Identifier: MIT OR Apache-2.0
// recv, send, recvmsg and sendmsg.
#pragma once

#include "io/op.h"

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

struct Cord;

// code: recv or send, of a buffer; recvmsg or sendmsg, of a msghdr, whose length is 1. flags: with MSG_NOSIGNAL, if it
// sends.
// (The parameters of the public calls come first, so that these can jump here.)
int64_t transfer_message(int fd, const void* address, size_t length, int flags, OpCode code, Cord& cord);

} // namespace fiberrt
