// SPDX-License-Identifier: MIT OR Apache-2.0
// States of sockets that poll(2) does not report, but that end a call which waits inside the kernel.
#pragma once

#include <stdint.h>

namespace fiberrt {

// The events of poll(2) that hold now.
int events_now(int fd, int events);

// An option of SOL_SOCKET; -1: it has none, or is no socket.
int socket_option(int fd, int option);

// Whether a call that waits for room to send must try again at intervals: for a unix socket that has no room poll(2)
// reports neither its shutdown nor the peer's.
bool must_retry_send(int fd);

// The result of a send that has waited and fails with -EPIPE: the error that is queued in the socket comes first.
int64_t result_when_broken(int fd);

// How long such a send waits before the next attempt: from `first` on twice as long each time, up to `longest`.
constexpr int64_t first_send_pause_ns = 1'000'000;
constexpr int64_t longest_send_pause_ns = 256'000'000;

} // namespace fiberrt
