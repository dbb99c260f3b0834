// SPDX-License-Identifier: MIT OR Apache-2.0
// From a text to a connection, by whichever of a name's addresses answers first.
#pragma once

namespace fiberrt {

struct Cord;

// Connects to "host:port", "[host]:port" or "unix:path". flags: SOCK_NONBLOCK and SOCK_CLOEXEC, of the socket. The
// connected descriptor, or -E...: see fiber_dial.
int dial(Cord& cord, const char* address, int flags);

} // namespace fiberrt
