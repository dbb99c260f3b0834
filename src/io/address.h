// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses for fiber_dial (dial.cc): parses their texts, and puts resolved addresses into the order in which to try
// them.
#pragma once

#include <netdb.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace fiberrt {

// Splits "host:port" or "[host]:port"; *port points into the address. Returns 0, -EINVAL, -ENAMETOOLONG.
int split_address(const char* address, char* host, size_t size, const char** port);

// Makes the address of a unix socket from a path or, if the path begins with @, an abstract name. Returns 0, -EINVAL,
// -ENAMETOOLONG.
int unix_address(const char* path, sockaddr_un* out, socklen_t* length);

// Orders the addresses of a list for the attempts: the two families alternate, beginning with that of the first
// address. `out` has room for all.
void interleave(const addrinfo* list, const addrinfo** out);

} // namespace fiberrt
