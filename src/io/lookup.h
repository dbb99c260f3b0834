// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_getaddrinfo, and the look-ups of fiber_dial: the C library's resolver, on a thread of the pool.
#pragma once

struct addrinfo;

namespace fiberrt {

// Like getaddrinfo(3), but returns 0 or an errno as fiber_getaddrinfo does.
int lookup(const char* node, const char* service, const addrinfo* hints, addrinfo** out);

} // namespace fiberrt
