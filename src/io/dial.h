// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_dial: connects to the first of a name's addresses that answers.
#pragma once

namespace fiberrt {

struct Cord;

// Connects to "host:port", "[host]:port" or "unix:path". flags: SOCK_NONBLOCK and SOCK_CLOEXEC for the socket. Returns
// the connected descriptor, or -E... as fiber_dial does.
int dial(Cord& cord, const char* address, int flags);

} // namespace fiberrt
