// SPDX-License-Identifier: MIT OR Apache-2.0
// States of sockets that poll(2) does not report, but that end a call which waits inside the kernel.
#pragma once

#include "io/op.h"

#include <stdint.h>

namespace fiberrt {

// The events of poll(2) that hold now.
int events_now(int fd, int events);

// An option of SOL_SOCKET; -1: it has none, or is no socket.
int socket_option(int fd, int option);

// Whether a call that waits for room to send must try again at intervals: for a unix socket that has no room poll(2)
// reports neither its shutdown nor the peer's.
bool must_retry_send(int fd);

// Returns the result of a receive or an accept that was refused with -EAGAIN, if its socket is shut down for receiving.
// Such a socket counts as readable, but one for datagrams and a unix listener go on to refuse attempts. This tries once
// more, as data may have come after the first attempt and before the shutdown. If there are none, a receive gets 0,
// with nothing in a recvmsg's message, and an accept -EINVAL. -EAGAIN: the socket is not shut down, or the operation is
// of another kind.
int64_t result_if_shut_down(const Op& op);

// The result of a send that has waited and fails with -EPIPE: the error that is queued in the socket comes first.
int64_t result_when_broken(int fd);

// How long such a send waits before the next attempt: from `first` on twice as long each time, up to `longest`.
constexpr int64_t first_send_pause_ns = 1'000'000;
constexpr int64_t longest_send_pause_ns = 256'000'000;

} // namespace fiberrt
