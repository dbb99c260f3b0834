// SPDX-License-Identifier: MIT OR Apache-2.0
// The POSIX-named calls: arguments checked, one operation each, and the few differences between what io_uring does and
// what POSIX says made good: O_NONBLOCK, SIGPIPE, positions.
#include "io/fifo.h"
#include "io/io.h"

#include "api/api.h"
#include "api/io_ready.h"
#include "base/keep_errno.h"
#include "io/attempt.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fiberrt;
using namespace fiberrt::api;

namespace {

bool bad_buffer(const void* buffer, size_t count) { return (!buffer && count) || count > SSIZE_MAX; }

// run_until_ready for recv and send, which servers do all the time. Where that is a plain system call, it is made right here:
// the kernel leaves the processor without its memory of return addresses, and each return on the way out would be
// mispredicted.
[[gnu::always_inline]] inline int64_t transfer_when_ready(DescriptorUse& use, Op& op, int events) {
    return until_ready(use, op, events, [&](bool told_ready) -> int64_t {
        if (!use.by_attempts()) return use.run(op, told_ready);
        int error = told_ready ? 0 : use.check();
        if (error) return error;
        KeepErrno keep;
        return use.has_attempted(op, recv_or_send_now(op));
    });
}

int64_t run_alone(Cord& cord, Op& op) {
    DescriptorUse use(cord, op.fd);
    return use.run(op);
}

bool has_positions(int fd) {
    KeepErrno keep;
    return lseek(fd, 0, SEEK_CUR) >= 0 || errno != ESPIPE;
}

bool wanted_more(const Op& op, int64_t transferred) {
    if (op.code == OpCode::read || op.code == OpCode::write) return transferred < op.length;
    size_t wanted = 0;
    const auto* iov = static_cast<const iovec*>(op.address);
    for (uint32_t i = 0; i < op.length; i++) wanted += iov[i].iov_len;
    return size_t(transferred) < wanted;
}

// Moves a position that an operation has left where it was.
void mend_position(const Op& op, int64_t transferred) {
    KeepErrno keep;
    bool writes = op.code == OpCode::write || op.code == OpCode::writev;
    bool appended = writes && fcntl(op.fd, F_GETFL) & O_APPEND;
    lseek(op.fd, appended ? 0 : transferred, appended ? SEEK_END : SEEK_CUR);
}

Op buffer_op(OpCode code, int fd, const void* address, size_t length, int64_t position) {
    Op op(code, fd);
    op.address = const_cast<void*>(address);
    op.length = at_once(length);
    op.offset = uint64_t(position);
    return op;
}

// Runs a transfer at the file's own position. When io_uring gets less than all at first it tries for the rest; if that
// fails (no space left, a limit, an unmapped page, a bad sector), it reports what it got but does not move the
// position, which nothing in the result shows: hence the look at the position before. What was transferred in full, or
// up to the end, has moved it. Another thread or process that moves the same position meanwhile is not noticed.
int64_t run_at_position(DescriptorUse& use, Op& op, const struct stat& file, int events) {
    PositionTurn turn(use, op.fd, file);
    if (int error = turn.take()) return error;
    int64_t before = position_of(op.fd);
    int64_t result = run_until_ready(use, op, events);
    if (result > 0 && before >= 0 && wanted_more(op, result) && position_of(op.fd) == before) {
        mend_position(op, result);
    }
    return result;
}

int64_t read_file(OpCode code, int fd, const void* address, size_t length, int64_t position) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->current;
    // The kernel would ignore the position of an operation on a pipe, and take data that pread may not take.
    if (!me->attention && position != own_position && !has_positions(fd)) return -ESPIPE;
    DescriptorUse use(*cord, fd);
    Op op = buffer_op(code, fd, address, length, position);
    if (length == 0 && type_of(status_of(fd)) == S_IFCHR) {
        // POSIX's answer comes at once; io_uring would wait until there is something to read.
        if (int error = use.check()) return error;
        KeepErrno keep;
        return read(fd, nullptr, 0) < 0 ? -errno : 0;
    }
    if (position == own_position && !me->attention && position_of(fd) >= 0) {
        struct stat file = status_of(fd);
        if (counts_position(file)) return run_at_position(use, op, file, POLLIN);
    }
    return run_until_ready(use, op, POLLIN);
}

int64_t write_file(Cord& cord, OpCode code, int fd, const struct stat& file, const void* address, size_t length,
                   int64_t position) {
    DescriptorUse use(cord, fd);
    Op op = buffer_op(code, fd, address, length, position);
    op.may_block = type_of(file) == S_IFCHR; // a terminal that is ready begins a write at once, and may not end it
    if (position == own_position && counts_position(file)) return run_at_position(use, op, file, POLLOUT);
    return run_until_ready(use, op, POLLOUT);
}

bool is_stream(int fd) {
    KeepErrno keep;
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

// Fills a few buffers from those of a message, but for what has come already; returns how many.
size_t what_is_left(const msghdr& message, size_t come, iovec* out, size_t most) {
    size_t count = 0;
    for (size_t i = 0; i < message.msg_iovlen && count < most; i++) {
        iovec part = message.msg_iov[i];
        size_t skip = come < part.iov_len ? come : part.iov_len;
        come -= skip;
        if (skip < part.iov_len) out[count++] = {static_cast<char*>(part.iov_base) + skip, part.iov_len - skip};
    }
    return count;
}

// MSG_WAITALL, where a receive does not wait by itself: the rest of what op asked for.
[[gnu::noinline]] int64_t receive_rest(DescriptorUse& use, const Op& op, int64_t come) {
    iovec one = {op.address, op.length};
    msghdr whole = {};
    whole.msg_iov = &one;
    whole.msg_iovlen = 1;
    if (op.code == OpCode::recvmsg) whole = *static_cast<msghdr*>(op.address);
    iovec few[8];
    while (size_t count = what_is_left(whole, size_t(come), few, sizeof few / sizeof *few)) {
        msghdr rest = {};
        rest.msg_iov = few;
        rest.msg_iovlen = count;
        Op next = buffer_op(OpCode::recvmsg, op.fd, &rest, 1, 0);
        next.flags = op.flags;
        int64_t got = run_until_ready(use, next, POLLIN);
        if (got <= 0) { // what was received is not lost
            use.not_ended_by(int(got));
            return come;
        }
        come += got;
    }
    return come;
}

int64_t message(OpCode code, int fd, const void* address, size_t length, int flags, int events) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    bool send = events == POLLOUT;
    bool wait =
        !(flags & (send ? MSG_DONTWAIT : MSG_DONTWAIT | MSG_ERRQUEUE)); // the queue of errors is never waited for
    // Left to wait for room by itself, the kernel sends what its first attempt has not read yet: of a datagram,
    // nothing.
    if (send || !wait) flags |= MSG_DONTWAIT;
    DescriptorUse use(*cord, fd);
    Op op = buffer_op(code, fd, address, length, 0);
    op.flags = unsigned(flags);
    if (!wait) return use.run(op);
    bool plain = code == OpCode::recv || code == OpCode::send;
    int64_t result = plain ? transfer_when_ready(use, op, events) : run_until_ready(use, op, events);
    bool all = !send && (flags & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL && result > 0 && use.attempted();
    return all && is_stream(fd) ? receive_rest(use, op, result) : result;
}

bool all_empty(const iovec* iov, int count) {
    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len) return false;
    }
    return true;
}

bool bad_vector(const iovec* iov, int count) { return count < 0 || count > IOV_MAX || (!iov && count); }

int64_t descriptor_op(OpCode code, int fd, unsigned flags) {
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Op op(code, fd);
    op.flags = flags;
    return run_alone(*cord, op);
}

} // namespace

int64_t api::run_open(DescriptorUse& use, Op& op) {
    int64_t result = use.run(op);
    // A few times, as the path may name something else each time; and drivers have -EAGAIN for reasons of their own.
    for (int times = 0; result == -EAGAIN && waits_if_fifo(op) && times < 4; times++) {
        result = open_fifo(use, op);
        if (result == -EAGAIN) result = use.run(op);
    }
    return result;
}

int64_t fiber_read(int fd, void* buffer, size_t count) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return read_file(OpCode::read, fd, buffer, count, own_position);
}

int64_t fiber_write(int fd, const void* buffer, size_t count) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    struct stat file = status_of(fd);
    // Only what sends can be told to raise no SIGPIPE.
    if (type_of(file) == S_IFSOCK) return message(OpCode::send, fd, buffer, count, MSG_NOSIGNAL, POLLOUT);
    return write_file(*cord, OpCode::write, fd, file, buffer, count, own_position);
}

int64_t fiber_readv(int fd, const struct iovec* iov, int count) {
    if (bad_vector(iov, count)) return -EINVAL;
    return read_file(OpCode::readv, fd, iov, size_t(count), own_position);
}

int64_t fiber_writev(int fd, const struct iovec* iov, int count) {
    if (bad_vector(iov, count)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    struct stat file = status_of(fd);
    if (type_of(file) != S_IFSOCK) return write_file(*cord, OpCode::writev, fd, file, iov, size_t(count), own_position);
    if (all_empty(iov, count)) { // no empty datagram, as with writev(2)
        DescriptorUse use(*cord, fd);
        return use.check();
    }
    msghdr header = {};
    header.msg_iov = const_cast<iovec*>(iov);
    header.msg_iovlen = size_t(count);
    return message(OpCode::sendmsg, fd, &header, 1, MSG_NOSIGNAL, POLLOUT);
}

int64_t fiber_pread(int fd, void* buffer, size_t count, int64_t offset) {
    if (bad_buffer(buffer, count) || offset < 0) return -EINVAL;
    return read_file(OpCode::read, fd, buffer, count, offset);
}

int64_t fiber_pwrite(int fd, const void* buffer, size_t count, int64_t offset) {
    if (bad_buffer(buffer, count) || offset < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    if (!cord->current->attention && !has_positions(fd)) return -ESPIPE;
    return write_file(*cord, OpCode::write, fd, status_of(fd), buffer, count, offset);
}

int64_t fiber_recv(int fd, void* buffer, size_t count, int flags) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return message(OpCode::recv, fd, buffer, count, flags, POLLIN);
}

int64_t fiber_send(int fd, const void* buffer, size_t count, int flags) {
    if (bad_buffer(buffer, count)) return -EINVAL;
    return message(OpCode::send, fd, buffer, count, flags | MSG_NOSIGNAL, POLLOUT);
}

int64_t fiber_recvmsg(int fd, struct msghdr* header, int flags) {
    if (!header) return -EINVAL;
    return message(OpCode::recvmsg, fd, header, 1, flags, POLLIN);
}

int64_t fiber_sendmsg(int fd, const struct msghdr* header, int flags) {
    if (!header) return -EINVAL;
    return message(OpCode::sendmsg, fd, header, 1, flags | MSG_NOSIGNAL, POLLOUT);
}

int fiber_accept(int fd, struct sockaddr* address, socklen_t* length) { return fiber_accept4(fd, address, length, 0); }

int fiber_accept4(int fd, struct sockaddr* address, socklen_t* length, int flags) {
    if ((address && !length) || (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    DescriptorUse use(*cord, fd);
    Op op(OpCode::accept, fd);
    op.address = address;
    op.address2 = address ? length : nullptr;
    op.flags = unsigned(flags);
    return int(run_until_ready(use, op, POLLIN));
}

int fiber_connect(int fd, const struct sockaddr* address, socklen_t length) {
    if (!address) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    DescriptorUse use(*cord, fd);
    Op op(OpCode::connect, fd);
    op.address = const_cast<sockaddr*>(address);
    op.offset = length;
    int64_t result = use.run(op);
    // O_NONBLOCK and a unix socket whose backlog is full: nothing tells when there will be room.
    for (int64_t pause_ns = first_pause_ns; result == -EAGAIN; result = use.run(op)) {
        if (int error = ask_again_later(use, &pause_ns)) return error;
    }
    if (result != -EINPROGRESS && result != -EALREADY) return int(result);
    // The attempt goes on in the kernel; writable means decided.
    while (result == -EINPROGRESS || result == -EALREADY) {
        result = use.wait_until_ready(fd, POLLOUT, false);
        if (result < 0) return int(result);
        KeepErrno keep;
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) return -errno;
        if (error || !use.attempted()) return -error;
        result = use.run(op, true); // without that the kernel would take the next connect for this one's end
    }
    return result == -EISCONN ? 0 : int(result);
}

int fiber_open(const char* path, int flags, mode_t mode) {
    if (!path) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Op op(OpCode::open, DescriptorUse::none);
    // Left to itself, io_uring would first try with O_NONBLOCK, which opens a FIFO that nobody writes to.
    op.may_block = !(flags & O_NONBLOCK);
    op.address = const_cast<char*>(path);
    op.flags = unsigned(flags);
    op.length = flags & (O_CREAT | __O_TMPFILE) ? mode : 0;
    DescriptorUse use(*cord, DescriptorUse::none);
    return int(run_open(use, op));
}

int fiber_close(int fd) {
    Cord* cord = cord_here();
    return cord ? io_close(*cord, fd) : no_cord();
}

int fiber_statx(int dirfd, const char* path, int flags, unsigned mask, struct statx* out) {
    if (!path || !out) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    bool relative = dirfd != AT_FDCWD && path[0] != '/';
    Op op(OpCode::statx, relative ? dirfd : DescriptorUse::none);
    op.offset = uint64_t(int64_t(dirfd));
    op.address = const_cast<char*>(path);
    op.address2 = out;
    op.flags = unsigned(flags);
    op.length = mask;
    return int(run_alone(*cord, op));
}

int fiber_fsync(int fd) { return int(descriptor_op(OpCode::fsync, fd, 0)); }

int fiber_fdatasync(int fd) { return int(descriptor_op(OpCode::fsync, fd, fsync_data_only)); }

int fiber_poll_fd(int fd, int events) {
    if (events <= 0 || events > 0xffff) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    DescriptorUse use(*cord, fd);
    for (int64_t pause_ns = first_pause_ns;;) {
        int64_t result = use.wait_until_ready(fd, events, false);
        if (result < 0) return int(result);
        // The kernel tells of POLLRDHUP unasked, at once and every time.
        int asked_for = int(result) & (events | POLLERR | POLLHUP);
        if (asked_for) return asked_for;
        if (int error = ask_again_later(use, &pause_ns)) return error;
    }
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
