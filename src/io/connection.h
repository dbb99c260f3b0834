// SPDX-License-Identifier: MIT OR Apache-2.0
// accept and connect.
#pragma once

#include <sys/socket.h>

namespace fiberrt {

struct Cord;

// address and length: both null, or as accept4(2) has them. A descriptor, or -E...
int accept_connection(Cord& cord, int fd, sockaddr* address, socklen_t* length, int flags);

int connect_socket(Cord& cord, int fd, const sockaddr* address, socklen_t length);

} // namespace fiberrt
