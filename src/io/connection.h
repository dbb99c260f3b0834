// SPDX-License-Identifier: MIT OR Apache-2.0
// accept and connect, for fibers with a stack.
#pragma once

#include <sys/socket.h>

namespace fiberrt {

struct Cord;

// Accepts a connection, waiting for one. address and length are both null, or as in accept4(2). Returns a descriptor,
// or -E...
int accept_connection(Cord& cord, int fd, sockaddr* address, socklen_t* length, int flags);

int connect_socket(Cord& cord, int fd, const sockaddr* address, socklen_t length);

} // namespace fiberrt
