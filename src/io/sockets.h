// SPDX-License-Identifier: MIT OR Apache-2.0
// States of sockets that poll(2) does not report although a call that waits in the kernel ends at them.
#pragma once

#include <stdint.h>

namespace fiberrt {

// Returns the events of poll(2) that hold now.
int events_now(int fd, int events);

// Returns an option of SOL_SOCKET; -1 if fd has no such option or is no socket.
int socket_option(int fd, int option);

// Whether a call that waits for room to send must try again at intervals. That is so on unix sockets: while such a
// socket has no room, poll(2) reports neither its shutdown nor its peer's.
bool must_retry_send(int fd);

// Returns the result of a send that has waited and fails with -EPIPE: the socket's pending error, if it has one, comes
// first.
int64_t result_when_broken(int fd);

// How long such a send waits before it tries again: first_send_pause_ns, then twice as long each time, up to
// longest_send_pause_ns.
constexpr int64_t first_send_pause_ns = 1'000'000;
constexpr int64_t longest_send_pause_ns = 256'000'000;

} // namespace fiberrt
