// SPDX-License-Identifier: MIT OR Apache-2.0
// States of sockets that poll(2) does not report.
#include "io/sockets.h"

#include "base/keep_errno.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

namespace fiberrt {

int events_now(int fd, int events) {
    KeepErrno keep;
    pollfd look = {fd, short(events), 0};
    return poll(&look, 1, 0) > 0 ? look.revents : 0;
}

int socket_option(int fd, int option) {
    KeepErrno keep;
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -1 : value;
}

bool must_retry_send(int fd) { return socket_option(fd, SO_DOMAIN) == AF_UNIX; }

int64_t result_when_broken(int fd) {
    int error = socket_option(fd, SO_ERROR);
    return error > 0 ? -error : -EPIPE;
}

} // namespace fiberrt
