// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_recv, fiber_send and their relatives, including reads and writes of sockets.
#pragma once

#include "io/op.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

namespace fiberrt {

struct Cord;

// Returns the events that a recv or send waits for; 0: it does not wait. Changes the flags so that a ring behaves like
// the kernel's own calls.
inline int message_events(bool send, int* flags) {
    bool wait =
        !(*flags & (send ? MSG_DONTWAIT : MSG_DONTWAIT | MSG_ERRQUEUE)); // no call waits for the queue of errors
    // A send that waits for room inside a ring sends only the bytes that its first try has not read: of a datagram,
    // none.
    if (send || !wait) *flags |= MSG_DONTWAIT;
    if (!send && !wait) *flags &= ~MSG_WAITALL; // MSG_WAITALL means nothing without a wait
    return !wait ? 0 : send ? POLLOUT : POLLIN;
}

// Performs recv or send of a buffer, or recvmsg or sendmsg of a msghdr (length 1), waiting for readiness. A send has
// MSG_NOSIGNAL in its flags.
// (The parameters of the public calls come first, so that these can jump here.)
int64_t transfer_message(int fd, const void* address, size_t length, int flags, OpCode code, Cord& cord);

} // namespace fiberrt
