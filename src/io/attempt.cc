// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations by plain system calls that never block the thread: what POSIX calls do not offer (all but the socket calls
// wait if the descriptor says so) is made of RWF_NOWAIT, and, where the kernel has not even that, of a look before.
#include "io/attempt.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/parse_number.h"
#include "base/readable.h"
#include "io/parts.h"
#include "io/sockets.h"
#include "io/terminal.h"

#include <fcntl.h>
#include <limits.h>
#include <new>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

namespace fiberrt {

namespace {

// Held to look and to do what the look allowed, without another thread of ours in between.
constinit pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

bool ready(int fd, int events) {
    if (fd < 0) return true; // poll(2) would ignore it; the call tells what is wrong
    pollfd look = {fd, short(events), 0};
    return poll(&look, 1, 0) > 0;
}

mode_t type_of(int fd, struct stat* file) { return fstat(fd, file) < 0 ? 0 : file->st_mode & S_IFMT; }

bool on_disk(mode_t type) { return type == S_IFREG || type == S_IFBLK; }

int64_t transfer(const Op& op, const Parts& parts, int flags) {
    bool in = op.code == OpCode::read || op.code == OpCode::readv;
    return steadily([&] {
        return in ? preadv2(op.fd, parts.iov, parts.count, off_t(op.offset), flags)
                  : pwritev2(op.fd, parts.iov, parts.count, off_t(op.offset), flags);
    });
}

// 0, or why the descriptor takes no such transfer at all: it was opened for the other direction, or has none. The
// kernel says so of a transfer of nothing too, which waits for nothing.
int64_t transfer_of_nothing(const Op& op) {
    bool in = op.code == OpCode::read || op.code == OpCode::readv;
    iovec nothing = {nullptr, 0};
    return answer(in ? readv(op.fd, &nothing, 1) : writev(op.fd, &nothing, 1));
}

// Whether a number fits into an eventfd, if that is ready: 0, -EAGAIN, or -E..., that could not be seen; 1: the call
// will not wait in any case. The counter is found in /proc alone.
int fits_eventfd(int fd, const iovec& buffer) {
    uint64_t number = 0;
    if (buffer.iov_len < sizeof number) return 0; // the call tells what is wrong
    if (int error = check_readable(buffer.iov_base, sizeof number)) return error;
    memcpy(&number, buffer.iov_base, sizeof number);
    if (number <= 1) return 0; // this is what it is ready for
    char path[48];
    char text[512];
    snprintf(path, sizeof path, "/proc/thread-self/fdinfo/%d", fd);
    int info = open(path, O_RDONLY | O_CLOEXEC);
    if (info < 0) return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
    ssize_t length = read(info, text, sizeof text - 1);
    close(info);
    text[length < 0 ? 0 : length] = '\0';
    const char* count = strstr(text, "eventfd-count:");
    if (!count) return 0;
    if (number == UINT64_MAX) return 1; // which it never takes
    return number < UINT64_MAX - parse_hexadecimal(count + strlen("eventfd-count:")) ? 0 : -EAGAIN;
}

// Of what is of no file system, such as an eventfd, the kernel takes several buffers one after the other, and each may
// be one to wait for.
int64_t write_one_by_one(const Op& op, const Parts& parts) {
    int64_t all = 0;
    for (int i = 0; i < parts.count; i++) {
        iovec buffer = parts.iov[i];
        if (!buffer.iov_len) continue;
        bool refused = buffer.iov_len < sizeof(uint64_t) && too_short_to_wait(op.fd, buffer.iov_len);
        int64_t moved = refused ? 1 : fits_eventfd(op.fd, buffer);
        if (moved == 0 && !ready(op.fd, POLLOUT)) moved = -EAGAIN;
        if (moved >= 0) moved = steadily([&] { return pwritev2(op.fd, &buffer, 1, off_t(op.offset), 0); });
        if (moved < 0) return all ? all : moved;
        all += moved;
        if (size_t(moved) < buffer.iov_len) break;
    }
    return all;
}

// What has neither RWF_NOWAIT nor a disk below: at most what is taken at once by what says that it is ready.
int64_t write_if_ready(const Op& op, Parts& parts) {
    MutexHeld held(one_at_a_time);
    struct stat file;
    if (parts.bytes() && type_of(op.fd, &file) == 0 && fcntl(op.fd, F_GETFD) >= 0) return write_one_by_one(op, parts);
    // coverage: kernel
    if (parts.bytes() && !ready(op.fd, POLLOUT)) return -EAGAIN;
    parts.cut(PIPE_BUF); // a pipe that is ready has room for so many
    return transfer(op, parts, 0);
}

bool nonblocking(int fd) { return fcntl(fd, F_GETFL) & O_NONBLOCK; }

// A FIFO of a file system has no RWF_NOWAIT, and others may read and write it too, so that a look says nothing about
// the transfer after it. So it is opened once more, with O_NONBLOCK. op_blocking: that is not allowed.
int64_t transfer_by_own_opening(const Op& op, const Parts& parts, int access) {
    char path[32];
    snprintf(path, sizeof path, "/proc/thread-self/fd/%d", op.fd);
    Op own = op;
    own.fd = open(path, access | O_NONBLOCK | O_CLOEXEC);
    if (own.fd < 0 && errno == ENXIO) { // it has no reader; one may come by now, and op.fd would wait for that
        raise(SIGPIPE);
        return -EPIPE;
    }
    if (own.fd < 0) return op_blocking;
    int64_t result = transfer(own, parts, 0);
    close(own.fd);
    return result;
}

int64_t read_now(const Op& op) {
    Parts parts(op);
    int64_t got = transfer(op, parts, RWF_NOWAIT);
    struct stat file;
    if (got >= 0) {
        if (size_t(got) == parts.bytes() || !on_disk(type_of(op.fd, &file))) return got;
        // Of a file: the end, or that the rest is not in memory.
        bool own_position = int64_t(op.offset) < 0;
        int64_t at = own_position ? lseek(op.fd, 0, SEEK_CUR) : int64_t(op.offset) + got;
        if (S_ISREG(file.st_mode) && file.st_size > 0 && at >= file.st_size) return got;
        if (own_position && got && lseek(op.fd, -got, SEEK_CUR) < 0) return got;
        return op_blocking; // all of it
    }
    if (got != -EOPNOTSUPP && got != -EAGAIN) return got;
    mode_t type = type_of(op.fd, &file);
    if (on_disk(type)) return op_blocking;
    if (got == -EAGAIN) return got;
    if (int error = parts.check()) return error;
    if (type == S_IFSOCK) {
        if (!parts.bytes()) return transfer(op, parts, 0); // ends at once
        msghdr message = {};
        message.msg_iov = const_cast<iovec*>(parts.iov);
        message.msg_iovlen = size_t(parts.count);
        return steadily([&] { return recvmsg(op.fd, &message, MSG_DONTWAIT); });
    }
    if (!parts.bytes() || nonblocking(op.fd)) return transfer(op, parts, 0);
    if (int64_t error = transfer_of_nothing(op)) return error;
    if (!type && too_short_to_wait(op.fd, parts.bytes())) return transfer(op, parts, 0);
    int64_t result = type == S_IFIFO ? transfer_by_own_opening(op, parts, O_RDONLY) : op_blocking;
    if (result != op_blocking) return result;
    return readable_now(op.fd, parts.bytes()) ? op_blocking : -EAGAIN; // see read_if_ready() in plain.cc
}

int64_t write_now(const Op& op) {
    Parts parts(op);
    // Not tried on disks: what RWF_NOWAIT would cut short there, O_APPEND could not continue.
    struct stat file;
    mode_t type = type_of(op.fd, &file);
    if (on_disk(type)) return op_blocking;
    int64_t put = transfer(op, parts, RWF_NOWAIT);
    if (put != -EOPNOTSUPP) return put;
    if (int error = parts.check()) return error;
    if (int64_t error = transfer_of_nothing(op)) return error;
    if (op.may_block && parts.bytes()) return ready(op.fd, POLLOUT) ? op_blocking : -EAGAIN;
    if (!parts.bytes() || nonblocking(op.fd)) return transfer(op, parts, 0);
    int64_t result = type == S_IFIFO ? transfer_by_own_opening(op, parts, O_WRONLY) : op_blocking;
    return result == op_blocking ? write_if_ready(op, parts) : result;
}

// Returns 0 if the process has a free number for a descriptor, else -EMFILE. Not by a copy of the listener, which the
// child of a fork at this moment would keep.
int no_free_number() {
    int probe = eventfd(0, EFD_CLOEXEC);
    if (probe < 0) return errno == EMFILE ? -EMFILE : 0;
    close(probe);
    return 0;
}

int64_t accept_now(const Op& op) {
    auto* address = static_cast<sockaddr*>(op.address);
    auto* length = static_cast<socklen_t*>(op.address2);
    auto call = [&] { return accept4(op.fd, address, length, int(op.flags)); };
    int flags = fcntl(op.fd, F_GETFL);
    if (flags < 0) return -errno;
    if (flags & O_NONBLOCK) return steadily(call);
    MutexHeld held(one_at_a_time);
    // Of what is no listener the call tells at once what is wrong with it.
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(op.fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens && !ready(op.fd, POLLIN)) {
        int error = no_free_number(); // without one, the kernel's call does not wait for a connection
        return error ? error : -EAGAIN;
    }
    return steadily(call);
}

int64_t connect_now(const Op& op) {
    const auto* address = static_cast<const sockaddr*>(op.address);
    auto call = [&] { return connect(op.fd, address, socklen_t(op.offset)); };
    int flags = fcntl(op.fd, F_GETFL);
    if (flags < 0) return -errno;
    if (flags & O_NONBLOCK) return steadily(call);
    MutexHeld held(one_at_a_time);
    flags = fcntl(op.fd, F_GETFL);
    fcntl(op.fd, F_SETFL, flags | O_NONBLOCK);
    int64_t result = steadily(call);
    fcntl(op.fd, F_SETFL, flags);
    return result;
}

// Files may be written out, sockets may linger; everything else is closed at once.
int64_t close_now(int fd) {
    struct linger lingers = {};
    socklen_t size = sizeof lingers;
    if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &lingers, &size) == 0) {
        if (lingers.l_onoff && lingers.l_linger) return op_blocking;
    } else {
        struct stat file;
        mode_t type = type_of(fd, &file);
        bool of_memory =
            type == S_IFCHR && major(file.st_rdev) == 1; // /dev/null and its like, which have nothing to drain
        if (on_disk(type) || (type == S_IFCHR && !of_memory)) return op_blocking;
    }
    return answer(close(fd)); // once: it is closed, whatever the answer
}

int64_t poll_now(const Op& op) {
    if (op.fd < 0) return -EBADF; // poll(2) would ignore it
    pollfd look = {op.fd, short(op.flags), 0};
    int64_t count = steadily([&] { return poll(&look, 1, 0); });
    if (count <= 0) return count < 0 ? count : -EAGAIN;
    return look.revents & POLLNVAL ? -EBADF : uint16_t(look.revents);
}

// From a pipe into a socket that waits unless a send says otherwise, which a splice cannot: by the size of its buffer,
// or of what is not sent yet, even a few bytes may be too many for one that is ready. What is sent is a copy, and taken
// from the pipe only then.
int64_t splice_into_waiting_socket(const Op& op, int out) {
    int copy[2];
    if (pipe2(copy, O_CLOEXEC | O_NONBLOCK) < 0) return -errno;
    char bytes[PIPE_BUF];
    size_t most = op.length < sizeof bytes ? op.length : sizeof bytes;
    int64_t result = steadily([&] { return tee(op.fd, copy[1], most, SPLICE_F_NONBLOCK); });
    if (result > 0) result = steadily([&] { return read(copy[0], bytes, size_t(result)); });
    if (result > 0) {
        int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (op.flags & SPLICE_F_MORE ? MSG_MORE : 0);
        result = steadily([&] { return send(out, bytes, size_t(result), flags); });
    }
    // Not by a read, which would wait if another reader has been faster.
    auto take = [&] { return splice(op.fd, nullptr, copy[1], nullptr, size_t(result), SPLICE_F_NONBLOCK); };
    if (result > 0) steadily(take);
    close(copy[0]);
    close(copy[1]);
    return result;
}

// Whether a pipe has neither data nor a writer; also a FIFO that no writer has opened yet, which poll(2) does not
// report.
bool has_ended(int fd) {
    if (ready(fd, POLLIN)) return false;
    int copy[2];
    if (pipe2(copy, O_CLOEXEC) < 0) return false;
    ssize_t copied = tee(fd, copy[1], 1, SPLICE_F_NONBLOCK);
    close(copy[0]);
    close(copy[1]);
    return copied == 0;
}

// A pipe does not wait if it is told not to; the descriptor at the other end cannot be told so, and waits unless it has
// O_NONBLOCK. A socket that is ready has data. A thread of the pool reads the bytes that a device has.
int64_t splice_now(const Op& op) {
    const auto& out = *static_cast<const OutEnd*>(op.address);
    struct stat file;
    mode_t from = type_of(op.fd, &file);
    mode_t to = type_of(out.fd, &file);
    if (from != S_IFIFO && to != S_IFIFO) return answer(splice_call(op)); // which tells what is wrong
    mode_t end = from == S_IFIFO ? to : from;
    int end_fd = from == S_IFIFO ? out.fd : op.fd;
    if (on_disk(end)) return op_blocking;
    if (end == S_IFIFO || nonblocking(end_fd)) return answer(splice_call(op));
    if (from == S_IFIFO && has_ended(op.fd)) return 0;
    if (end == S_IFCHR) return can_splice_device(op) ? op_blocking : -EAGAIN;
    MutexHeld held(one_at_a_time);
    bool sends = to == S_IFSOCK && int64_t(out.offset) < 0; // which tells of a shutdown that readiness does not
    if (!ready(op.fd, POLLIN) || (!ready(out.fd, POLLOUT) && !(sends && must_retry_send(out.fd)))) return -EAGAIN;
    if (sends) return splice_into_waiting_socket(op, out.fd);
    return answer(splice_call(op, from == S_IFIFO ? PIPE_BUF : SIZE_MAX));
}

int64_t call(const Op& op) {
    int flags = int(op.flags);
    switch (op.code) {
    case OpCode::read:
    case OpCode::readv: return read_now(op);
    case OpCode::write:
    case OpCode::writev: return write_now(op);
    case OpCode::recv:
    case OpCode::send: return recv_or_send_now(op);
    case OpCode::recvmsg:
        return steadily([&] { return recvmsg(op.fd, static_cast<msghdr*>(op.address), flags | MSG_DONTWAIT); });
    case OpCode::sendmsg:
        return steadily(
            [&] { return sendmsg(op.fd, static_cast<msghdr*>(op.address), flags | MSG_DONTWAIT | MSG_NOSIGNAL); });
    case OpCode::accept: return accept_now(op);
    case OpCode::connect: return connect_now(op);
    case OpCode::close: return close_now(int(op.offset));
    case OpCode::poll: return poll_now(op);
    case OpCode::open:
    case OpCode::statx:
    case OpCode::fsync:
    case OpCode::open2:
    case OpCode::rename:
    case OpCode::unlink:
    case OpCode::mkdir:
    case OpCode::getdents:
    case OpCode::copy_range:
    case OpCode::moment: break;
    case OpCode::splice: return splice_now(op);
    }
    return op_blocking;
}

} // namespace

bool too_short_to_wait(int fd, size_t bytes) {
    static constexpr struct {
        const char* name;
        size_t least;
    } kinds[] = {{"anon_inode:[eventfd]", sizeof(uint64_t)},
                 {"anon_inode:[timerfd]", sizeof(uint64_t)},
                 {"anon_inode:[signalfd]", sizeof(signalfd_siginfo)}};
    if (bytes >= sizeof(signalfd_siginfo)) return false;
    KeepErrno keep;
    char path[32];
    char name[32];
    snprintf(path, sizeof path, "/proc/thread-self/fd/%d", fd);
    ssize_t length = readlink(path, name, sizeof name - 1);
    name[length < 0 ? 0 : length] = '\0';
    for (const auto& kind : kinds) {
        if (strcmp(name, kind.name) == 0) return bytes < kind.least;
    }
    return false;
}

int64_t attempt(const Op& op) {
    KeepErrno keep;
    io_begins(); // so that it fits together with what rings do
    int64_t result = call(op);
    io_ends();
    return result;
}

// Nothing is half done: what it guards are system calls. Not held around the fork, as some might wait all the same, for
// what another process was faster to take.
void attempts_forked() { new (&one_at_a_time) pthread_mutex_t(PTHREAD_MUTEX_INITIALIZER); }

} // namespace fiberrt
