// SPDX-License-Identifier: MIT OR Apache-2.0
// accept and connect, for fibers with a stack.
#include "io/connection.h"

#include "base/keep_errno.h"
#include "io/ready.h"
#include "io/try_op.h"

#include <errno.h>
#include <poll.h>

namespace fiberrt {

namespace {

// Makes a TCP socket usable again after a failed connect. A blocking connect(2) leaves a refused socket as new. But a
// socket whose error was read by SO_ERROR answers the next connect with -ECONNABORTED, and is as new only after that;
// so this makes that connect. It does so only for sockets and errors where that surely starts no new connection
// attempt.
[[gnu::cold]] void end_failed_connect(const Op& op, int error) {
    int domain = socket_option(op.fd, SO_DOMAIN);
    bool internet = domain == AF_INET || domain == AF_INET6;
    bool by_peer = error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == ETIMEDOUT;
    // This does not wait: it gets -ECONNABORTED.
    if (internet && by_peer && socket_option(op.fd, SO_TYPE) == SOCK_STREAM) try_op(op);
}

} // namespace

int accept_connection(Cord& cord, int fd, sockaddr* address, socklen_t* length, int flags) {
    DescriptorGuard guard(cord, fd);
    Op op(OpCode::accept, fd);
    op.address = address;
    op.address2 = length;
    op.flags = unsigned(flags);
    return int(run_until_ready(guard, op, POLLIN));
}

int connect_socket(Cord& cord, int fd, const sockaddr* address, socklen_t length) {
    DescriptorGuard guard(cord, fd);
    Op op(OpCode::connect, fd);
    op.address = const_cast<sockaddr*>(address);
    op.offset = length;
    int64_t result = guard.run(op);
    // A unix socket with O_NONBLOCK whose listener's backlog is full: the kernel does not report when there is room.
    for (int64_t pause_ns = first_pause_ns; result == -EAGAIN; result = guard.run(op, true)) {
        if (int error = ask_again_later(guard, &pause_ns)) return int(guard.try_once_more(op, error));
    }
    if (result != -EINPROGRESS && result != -EALREADY) return int(result);
    // The kernel goes on connecting; the socket becomes writable when it has succeeded or failed.
    while (result == -EINPROGRESS || result == -EALREADY) {
        result = guard.wait_until_ready(fd, POLLOUT, false);
        if (result < 0) return int(guard.try_once_more(op, result));
        KeepErrno keep;
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) return -errno;
        if (error) {
            if (guard.tried_by_call()) end_failed_connect(op, error);
            return -error;
        }
        if (!guard.tried_by_call()) return 0;
        result = guard.run(op, true); // tells the kernel that this connect has ended
    }
    return result == -EISCONN ? 0 : int(result);
}

} // namespace fiberrt
