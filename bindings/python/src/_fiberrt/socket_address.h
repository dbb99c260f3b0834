// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses of sockets in the standard library's form.
#pragma once

#include <Python.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace fiberrt_python {

union SocketAddress {
    sockaddr any;
    sockaddr_in in;
    sockaddr_in6 in6;
    sockaddr_un un;
    sockaddr_storage storage;
};

inline bool socket_address_known(int family) { return family == AF_INET || family == AF_INET6 || family == AF_UNIX; }

// Returns an address of such a family; None if the length is 0.
PyObject* socket_address(const SocketAddress& address, socklen_t length);

// Converts an address of IPv4 or IPv6 with a numeric host. Returns false, without an exception, for all others: the
// standard library knows those.
bool socket_address_parse(int family, PyObject* address, SocketAddress& to, socklen_t& length);

} // namespace fiberrt_python
