// SPDX-License-Identifier: MIT OR Apache-2.0
// Connections: connect, accept, accept4.
#include "posix/calls.h"
#include "posix/sockets.h"

namespace fiberrt::posix {

namespace {

// Accepts by fiber_accept4. After a wait for readiness, another process could take the connection before this one
// accepts it, and a blocking accept would then block the thread.
int accept_by_fiber(int fd, sockaddr* address, socklen_t* length, int flags) {
    auto block = [&] { return ::accept4(fd, address, length, flags); };
    // With a bad argument, only the kernel's call has the kernel's effects.
    if (is_nonblocking(fd) || (address && !is_readable(length))) return at_once(block());
    KeepErrnoIfDone errno_kept;
    int64_t deadline = socket_deadline(fd, SO_RCVTIMEO);
    Entered entered;
    if (!entered) return block();
    TimeLimit limit(deadline);
    if (limit.error()) return block();
    int result = fiber_accept4(fd, address, length, flags);
    if (limit.is_over(result)) result = -EAGAIN; // as the kernel reports SO_RCVTIMEO
    switch (after_wait(result)) {
    case Next::block: return block();
    case Next::fail: return -1;
    default: return errno_kept.done(result);
    }
}

// The result of a connect. A socket that has been disconnected (AF_UNSPEC) may get a new connection.
int connected(int fd, int result) {
    if (result == 0 || errno == EINPROGRESS) forget_ended(fd);
    return result;
}

// A connect that does not block.
int connect_once(int fd, const sockaddr* address, socklen_t length) {
    NonblockingMoment nonblocking(fd);
    return ::connect(fd, address, length);
}

} // namespace

int finish_connecting(int fd, const sockaddr* address, socklen_t length, int pending, int64_t deadline) {
    switch (wait_ready(fd, POLLOUT, deadline)) {
    case Next::timed_out: errno = pending; return -1; // as the kernel reports SO_SNDTIMEO
    case Next::fail: return -1;
    case Next::block: return ::connect(fd, address, length); // the thread waits for the attempt
    case Next::retry: break;
    }
    // The second connect ends the attempt: it reports the error, and a later connect begins a new attempt.
    if (connect_once(fd, address, length) == 0 || errno == EISCONN) return 0;
    if (errno != EALREADY && errno != EINPROGRESS) return -1;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size)) return -1;
    if (error) errno = error;
    return error ? -1 : 0;
}

int accept(int fd, sockaddr* address, socklen_t* length) {
    return may_wait() ? accept_by_fiber(fd, address, length, 0) : ::accept(fd, address, length);
}

int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
    return may_wait() ? accept_by_fiber(fd, address, length, flags) : ::accept4(fd, address, length, flags);
}

int connect(int fd, const sockaddr* address, socklen_t length) {
    if (!may_wait()) return connected(fd, ::connect(fd, address, length));
    if (is_nonblocking(fd)) return at_once(connected(fd, ::connect(fd, address, length)));
    DescriptorCall call(fd, POLLOUT, SO_SNDTIMEO);
    for (;;) {
        if (connected(fd, connect_once(fd, address, length)) == 0) return call.done(0);
        if (errno == EINPROGRESS || errno == EALREADY)
            return call.done(finish_connecting(fd, address, length, errno, call.deadline()));
        if (!would_block()) return -1;
        // The queue of a Unix listener is full: no event tells when it has room.
        switch (call.wait_for_more()) {
        case Next::retry: continue;
        case Next::block: return ::connect(fd, address, length);
        default: return -1;
        }
    }
}

} // namespace fiberrt::posix
