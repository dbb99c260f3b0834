// SPDX-License-Identifier: MIT OR Apache-2.0
// The POSIX-named calls: arguments checked, one operation each, and the few differences between what io_uring does and
// what POSIX says made good: O_NONBLOCK, SIGPIPE, positions.
#include "io/io.h"

#include "api/api.h"
#include "base/keep_errno.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

using namespace fiberrt;

namespace {

constexpr uint64_t own_position = ~uint64_t(0);
constexpr size_t most_bytes = 0x7ffff000; // what the kernel transfers at once

bool bad_buffer(const void* buffer, size_t count) { return (!buffer && count) || count > SSIZE_MAX; }

uint32_t clamped(size_t count) { return uint32_t(count < most_bytes ? count : most_bytes); }

// A descriptor with O_NONBLOCK answers -EAGAIN where the others wait: then wait for readiness, and try again.
int64_t run_until_ready(Cord& cord, Op& op, int events) {
    for (;;) {
        int64_t result = io_run(cord, op);
        if (result != -EAGAIN || (op.flags & MSG_DONTWAIT)) return result;
        Op ready(OpCode::poll, op.fd);
        ready.flags = unsigned(events);
        int64_t answer = io_run(cord, ready);
        if (answer < 0) return answer;
    }
}

int64_t transfer(OpCode code, int fd, void* address, uint32_t length, uint64_t position, int events) {
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Op op(code, fd);
    op.address = address;
    op.length = length;
    op.offset = position;
    return run_until_ready(*cord, op, events);
}

int64_t message(OpCode code, int fd, void* address, uint32_t length, int flags, int events) {
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Op op(code, fd);
    op.address = address;
    op.length = length;
    op.flags = unsigned(flags);
    return run_until_ready(*cord, op, events);
}

bool has_positions(int fd) {
    KeepErrno keep;
    return lseek(fd, 0, SEEK_CUR) >= 0 || errno != ESPIPE;
}

int64_t positioned(OpCode code, int fd, void* address, size_t count, int64_t position, int events) {
    if (bad_buffer(address, count) || position < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    // The kernel would ignore the position of an operation on a pipe, and take data that pread may not take.
    if (!has_positions(fd)) return -ESPIPE;
    return transfer(code, fd, address, clamped(count), uint64_t(position), events);
}

bool bad_vector(const iovec* iov, int count) { return count < 0 || count > IOV_MAX || (!iov && count); }

int64_t descriptor_op(OpCode code, int fd, unsigned flags) {
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Op op(code, fd);
    op.flags = flags;
    return io_run(*cord, op);
}

} // namespace

int64_t fiber_read(int fd, void* buffer, size_t count) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return transfer(OpCode::read, fd, buffer, clamped(count), own_position, POLLIN);
}

int64_t fiber_write(int fd, const void* buffer, size_t count) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    // Only send can be told to raise no SIGPIPE. What is not a socket says so, and nothing has happened.
    int64_t result = message(OpCode::send, fd, const_cast<void*>(buffer), clamped(count), MSG_NOSIGNAL, POLLOUT);
    if (result != -ENOTSOCK) return result;
    return transfer(OpCode::write, fd, const_cast<void*>(buffer), clamped(count), own_position, POLLOUT);
}

int64_t fiber_readv(int fd, const struct iovec* iov, int count) {
    if (bad_vector(iov, count)) return -EINVAL;
    return transfer(OpCode::readv, fd, const_cast<iovec*>(iov), uint32_t(count), own_position, POLLIN);
}

int64_t fiber_writev(int fd, const struct iovec* iov, int count) {
    if (bad_vector(iov, count)) return -EINVAL;
    msghdr header = {};
    header.msg_iov = const_cast<iovec*>(iov);
    header.msg_iovlen = size_t(count);
    int64_t result = message(OpCode::sendmsg, fd, &header, 1, MSG_NOSIGNAL, POLLOUT);
    if (result != -ENOTSOCK) return result;
    return transfer(OpCode::writev, fd, const_cast<iovec*>(iov), uint32_t(count), own_position, POLLOUT);
}

int64_t fiber_pread(int fd, void* buffer, size_t count, int64_t offset) {
    return positioned(OpCode::read, fd, buffer, count, offset, POLLIN);
}

int64_t fiber_pwrite(int fd, const void* buffer, size_t count, int64_t offset) {
    return positioned(OpCode::write, fd, const_cast<void*>(buffer), count, offset, POLLOUT);
}

int64_t fiber_recv(int fd, void* buffer, size_t count, int flags) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return message(OpCode::recv, fd, buffer, clamped(count), flags, POLLIN);
}

int64_t fiber_send(int fd, const void* buffer, size_t count, int flags) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return message(OpCode::send, fd, const_cast<void*>(buffer), clamped(count), flags | MSG_NOSIGNAL, POLLOUT);
}

int64_t fiber_recvmsg(int fd, struct msghdr* header, int flags) {
    if (!header) return -EINVAL;
    return message(OpCode::recvmsg, fd, header, 1, flags, POLLIN);
}

int64_t fiber_sendmsg(int fd, const struct msghdr* header, int flags) {
    if (!header) return -EINVAL;
    return message(OpCode::sendmsg, fd, const_cast<msghdr*>(header), 1, flags | MSG_NOSIGNAL, POLLOUT);
}

int fiber_accept(int fd, struct sockaddr* address, socklen_t* length) { return fiber_accept4(fd, address, length, 0); }

int fiber_accept4(int fd, struct sockaddr* address, socklen_t* length, int flags) {
    if ((address && !length) || (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Op op(OpCode::accept, fd);
    op.address = address;
    op.address2 = address ? length : nullptr;
    op.flags = unsigned(flags);
    for (;;) {
        int64_t result = io_run(*cord, op);
        if (result != -EAGAIN) return int(result);
        result = descriptor_op(OpCode::poll, fd, POLLIN);
        if (result < 0) return int(result);
    }
}

int fiber_connect(int fd, const struct sockaddr* address, socklen_t length) {
    if (!address) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Op op(OpCode::connect, fd);
    op.address = const_cast<sockaddr*>(address);
    op.offset = length;
    int64_t result = io_run(*cord, op);
    if (result != -EINPROGRESS && result != -EALREADY) return int(result);
    // O_NONBLOCK: the attempt goes on in the kernel; writable means decided.
    result = descriptor_op(OpCode::poll, fd, POLLOUT);
    if (result < 0) return int(result);
    KeepErrno keep;
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? -errno : -error;
}

int fiber_open(const char* path, int flags, mode_t mode) {
    if (!path) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Op op(OpCode::open, -1);
    op.address = const_cast<char*>(path);
    op.flags = unsigned(flags);
    op.length = flags & (O_CREAT | __O_TMPFILE) ? mode : 0;
    return int(io_run(*cord, op));
}

int fiber_close(int fd) {
    Cord* cord = cord_here();
    return cord ? io_close(*cord, fd) : -ENOMEM;
}

int fiber_statx(int dirfd, const char* path, int flags, unsigned mask, struct statx* out) {
    if (!path || !out) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return -ENOMEM;
    Op op(OpCode::statx, -1);
    op.offset = uint64_t(int64_t(dirfd));
    op.address = const_cast<char*>(path);
    op.address2 = out;
    op.flags = unsigned(flags);
    op.length = mask;
    return int(io_run(*cord, op));
}

int fiber_fsync(int fd) { return int(descriptor_op(OpCode::fsync, fd, 0)); }

int fiber_fdatasync(int fd) { return int(descriptor_op(OpCode::fsync, fd, fsync_data_only)); }

int fiber_poll_fd(int fd, int events) {
    if (events <= 0 || events > 0xffff) return -EINVAL;
    return int(descriptor_op(OpCode::poll, fd, unsigned(events)));
}

FIBERRT_EXPORT(fiber_read);
FIBERRT_EXPORT(fiber_write);
FIBERRT_EXPORT(fiber_readv);
FIBERRT_EXPORT(fiber_writev);
FIBERRT_EXPORT(fiber_pread);
FIBERRT_EXPORT(fiber_pwrite);
FIBERRT_EXPORT(fiber_recv);
FIBERRT_EXPORT(fiber_send);
FIBERRT_EXPORT(fiber_recvmsg);
FIBERRT_EXPORT(fiber_sendmsg);
FIBERRT_EXPORT(fiber_accept);
FIBERRT_EXPORT(fiber_accept4);
FIBERRT_EXPORT(fiber_connect);
FIBERRT_EXPORT(fiber_open);
FIBERRT_EXPORT(fiber_close);
FIBERRT_EXPORT(fiber_statx);
FIBERRT_EXPORT(fiber_fsync);
FIBERRT_EXPORT(fiber_fdatasync);
FIBERRT_EXPORT(fiber_poll_fd);
