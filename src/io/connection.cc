// SPDX-License-Identifier: MIT OR Apache-2.0
// accept and connect.
#include "io/connection.h"

#include "base/keep_errno.h"
#include "io/attempt.h"
#include "io/ready.h"

#include <errno.h>
#include <poll.h>

namespace fiberrt {

namespace {

// The kernel's own connect leaves a socket that was refused as new. One whose error was asked for answers the next
// connect with -ECONNABORTED, and is then as new: that answer is fetched here. Of other sockets and errors it is not
// sure that this begins no new attempt; a shutdown, for one, has left a socket as new already.
[[gnu::cold]] void end_failed_connect(const Op& op, int error) {
    int domain = socket_option(op.fd, SO_DOMAIN);
    bool internet = domain == AF_INET || domain == AF_INET6;
    bool by_peer = error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == ETIMEDOUT;
    if (internet && by_peer && socket_option(op.fd, SO_TYPE) == SOCK_STREAM) attempt(op); // which does not wait
}

} // namespace

int accept_connection(Cord& cord, int fd, sockaddr* address, socklen_t* length, int flags) {
    DescriptorUse use(cord, fd);
    Op op(OpCode::accept, fd);
    op.address = address;
    op.address2 = length;
    op.flags = unsigned(flags);
    return int(run_until_ready(use, op, POLLIN));
}

int connect_socket(Cord& cord, int fd, const sockaddr* address, socklen_t length) {
    DescriptorUse use(cord, fd);
    Op op(OpCode::connect, fd);
    op.address = const_cast<sockaddr*>(address);
    op.offset = length;
    int64_t result = use.run(op);
    // O_NONBLOCK and a unix socket whose backlog is full: nothing tells when there will be room.
    for (int64_t pause_ns = first_pause_ns; result == -EAGAIN; result = use.run(op, true)) {
        if (int error = ask_again_later(use, &pause_ns)) return int(use.look_once_more(op, error));
    }
    if (result != -EINPROGRESS && result != -EALREADY) return int(result);
    // The attempt goes on in the kernel; writable means decided.
    while (result == -EINPROGRESS || result == -EALREADY) {
        result = use.wait_until_ready(fd, POLLOUT, false);
        if (result < 0) return int(use.look_once_more(op, result));
        KeepErrno keep;
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) return -errno;
        if (error) {
            if (use.attempted()) end_failed_connect(op, error);
            return -error;
        }
        if (!use.attempted()) return 0;
        result = use.run(op, true); // without that the kernel would take the next connect for this one's end
    }
    return result == -EISCONN ? 0 : int(result);
}

} // namespace fiberrt
