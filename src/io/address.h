// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses: as texts, as the socket calls have them, and the order in which to try them.
#pragma once

#include <netdb.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace fiberrt {

// Takes "host:port" or "[host]:port" apart; *port points into the address. 0, -EINVAL, -ENAMETOOLONG.
int split_address(const char* address, char* host, size_t size, const char** port);

// The address of a unix socket, of a path or, if that begins with @, of an abstract name. 0, -EINVAL, -ENAMETOOLONG.
int unix_address(const char* path, sockaddr_un* out, socklen_t* length);

// Puts the addresses of a list into the order in which to try them: the families in turn, beginning with the first
// address's. out has room for all.
void interleave(const addrinfo* list, const addrinfo** out);

} // namespace fiberrt
