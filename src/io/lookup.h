// SPDX-License-Identifier: MIT OR Apache-2.0
// Names to addresses, by the C library's resolver, on a thread of the pool.
#pragma once

struct addrinfo;

namespace fiberrt {

// As getaddrinfo(3); the result is 0 or an errno, see fiber_getaddrinfo.
int lookup(const char* node, const char* service, const addrinfo* hints, addrinfo** out);

} // namespace fiberrt
