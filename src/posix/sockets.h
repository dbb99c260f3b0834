// SPDX-License-Identifier: MIT OR Apache-2.0
// Functions that several calls on sockets use.
#pragma once

#include "posix/wait.h"

namespace fiberrt::posix {

size_t bytes_of(const msghdr& message); // the length of all buffers. The kernel has read their array before

// Whether a receive with these flags never waits. (A socket without a queue of errors ignores MSG_ERRQUEUE.)
bool never_waits(int fd, int flags);

// Called after a connect that did not wait. Waits until the socket is connected. pending: the errno of that connect;
// this function fails with it, too, if the time is over. Returns 0 or -1.
int finish_connecting(int fd, const sockaddr* address, socklen_t length, int pending, int64_t deadline);

// Sends the rest of a message after the kernel has sent its first `done` bytes, as a blocking send on a stream does.
// call: the caller's, whose time limit counts. Returns the number of bytes sent, including `done`.
ssize_t send_rest(DescriptorCall& call, int fd, const msghdr& message, size_t done, int flags);

} // namespace fiberrt::posix
