// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations by plain system calls that never block the thread (try_op.h).
//
// recv and send have MSG_DONTWAIT. For the others, which wait unless the descriptor has O_NONBLOCK, this file uses
// RWF_NOWAIT, or, where the kernel does not support that, polls the descriptor first.
#include "io/try_op.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/parse_number.h"
#include "base/readable.h"
#include "io/iovecs.h"
#include "io/message_layout.h"
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

// A thread holds this lock while it polls a descriptor and then makes the call, so that no other thread of the library
// makes one in between.
constinit pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

bool ready(int fd, int events) {
    if (fd < 0) return true; // poll(2) would ignore it; the call reports the error
    pollfd look = {fd, short(events), 0};
    return poll(&look, 1, 0) > 0;
}

mode_t type_of(int fd, struct stat* file) { return fstat(fd, file) < 0 ? 0 : file->st_mode & S_IFMT; }

bool on_disk(mode_t type) { return type == S_IFREG || type == S_IFBLK; }

int64_t transfer(const Op& op, const Iovecs& iovecs, int flags) {
    bool in = op.code == OpCode::read || op.code == OpCode::readv;
    return retry_eintr([&] {
        return in ? preadv2(op.fd, iovecs.iov, iovecs.count, off_t(op.offset), flags)
                  : pwritev2(op.fd, iovecs.iov, iovecs.count, off_t(op.offset), flags);
    });
}

// Returns 0, or the error of a descriptor that takes no such transfer at all, for example one opened for the other
// direction. The kernel reports that error for a transfer of no bytes too, and such a transfer does not wait.
int64_t transfer_of_nothing(const Op& op) {
    bool in = op.code == OpCode::read || op.code == OpCode::readv;
    iovec nothing = {nullptr, 0};
    return result_or_errno(in ? readv(op.fd, &nothing, 1) : writev(op.fd, &nothing, 1));
}

// Whether a ready eventfd has room for this number. 0: yes; -EAGAIN: no; another -E...: it could not be checked; 1: the
// write will not wait in any case. Only /proc tells the eventfd's counter.
int fits_eventfd(int fd, const iovec& buffer) {
    uint64_t number = 0;
    if (buffer.iov_len < sizeof number) return 0; // the call reports the error
    if (int error = check_readable(buffer.iov_base, sizeof number)) return error;
    memcpy(&number, buffer.iov_base, sizeof number);
    if (number <= 1) return 0; // a ready eventfd has room for 1
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
    if (number == UINT64_MAX) return 1; // an eventfd never accepts this number
    return number < UINT64_MAX - parse_hexadecimal(count + strlen("eventfd-count:")) ? 0 : -EAGAIN;
}

// Writes the buffers one by one, for descriptors that belong to no file system, such as an eventfd. The kernel handles
// each buffer as a separate write, so each may wait.
int64_t write_one_by_one(const Op& op, const Iovecs& iovecs) {
    int64_t all = 0;
    for (int i = 0; i < iovecs.count; i++) {
        iovec buffer = iovecs.iov[i];
        if (!buffer.iov_len) continue;
        bool refused = buffer.iov_len < sizeof(uint64_t) && too_short_to_wait(op.fd, buffer.iov_len);
        int64_t moved = refused ? 1 : fits_eventfd(op.fd, buffer);
        if (moved == 0 && !ready(op.fd, POLLOUT)) moved = -EAGAIN;
        if (moved >= 0) moved = retry_eintr([&] { return pwritev2(op.fd, &buffer, 1, off_t(op.offset), 0); });
        if (moved < 0) return all ? all : moved;
        all += moved;
        if (size_t(moved) < buffer.iov_len) break;
    }
    return all;
}

// Writes to a descriptor that is no disk and does not support RWF_NOWAIT: only if it is ready, and only as many bytes
// as it then accepts without a wait.
int64_t write_if_ready(const Op& op, Iovecs& iovecs) {
    MutexGuard guard(one_at_a_time);
    struct stat file;
    if (iovecs.bytes() && type_of(op.fd, &file) == 0 && fcntl(op.fd, F_GETFD) >= 0) return write_one_by_one(op, iovecs);
    // coverage: kernel
    if (iovecs.bytes() && !ready(op.fd, POLLOUT)) return -EAGAIN;
    iovecs.cut(PIPE_BUF); // a pipe that is ready has room for this many bytes
    return transfer(op, iovecs, 0);
}

bool nonblocking(int fd) { return fcntl(fd, F_GETFL) & O_NONBLOCK; }

// Transfers through a new descriptor of the same FIFO, with O_NONBLOCK. A FIFO of a file system does not support
// RWF_NOWAIT, and other processes may read and write it, so a poll says nothing about the transfer that follows.
// op_blocking: the FIFO could not be opened again.
int64_t transfer_by_own_opening(const Op& op, const Iovecs& iovecs, int access) {
    char path[32];
    snprintf(path, sizeof path, "/proc/thread-self/fd/%d", op.fd);
    Op own = op;
    own.fd = open(path, access | O_NONBLOCK | O_CLOEXEC);
    if (own.fd < 0 && errno == ENXIO) { // no reader at this moment; a write to op.fd could wait for a new one
        raise(SIGPIPE);
        return -EPIPE;
    }
    if (own.fd < 0) return op_blocking;
    int64_t result = transfer(own, iovecs, 0);
    close(own.fd);
    return result;
}

int64_t read_now(const Op& op) {
    Iovecs iovecs(op);
    int64_t got = transfer(op, iovecs, RWF_NOWAIT);
    struct stat file;
    if (got >= 0) {
        if (size_t(got) == iovecs.bytes() || !on_disk(type_of(op.fd, &file))) return got;
        // A short read of a file: the end of the file, or the rest is not in memory.
        bool own_position = int64_t(op.offset) < 0;
        int64_t at = own_position ? lseek(op.fd, 0, SEEK_CUR) : int64_t(op.offset) + got;
        if (S_ISREG(file.st_mode) && file.st_size > 0 && at >= file.st_size) return got;
        if (own_position && got && lseek(op.fd, -got, SEEK_CUR) < 0) return got;
        return op_blocking; // the whole read is repeated
    }
    if (got != -EOPNOTSUPP && got != -EAGAIN) return got;
    mode_t type = type_of(op.fd, &file);
    if (on_disk(type)) return op_blocking;
    if (got == -EAGAIN) return got;
    if (int error = iovecs.check()) return error;
    if (type == S_IFSOCK) {
        if (!iovecs.bytes()) return transfer(op, iovecs, 0); // ends at once
        msghdr message = {};
        message.msg_iov = const_cast<iovec*>(iovecs.iov);
        message.msg_iovlen = BufferCount(iovecs.count);
        return retry_eintr([&] { return recvmsg(op.fd, &message, MSG_DONTWAIT); });
    }
    if (!iovecs.bytes() || nonblocking(op.fd)) return transfer(op, iovecs, 0);
    if (int64_t error = transfer_of_nothing(op)) return error;
    if (!type && too_short_to_wait(op.fd, iovecs.bytes())) return transfer(op, iovecs, 0);
    int64_t result = type == S_IFIFO ? transfer_by_own_opening(op, iovecs, O_RDONLY) : op_blocking;
    if (result != op_blocking) return result;
    return readable_now(op.fd, iovecs.bytes()) ? op_blocking : -EAGAIN; // read_if_ready() in blocking_fallback.cc reads
}

int64_t write_now(const Op& op) {
    Iovecs iovecs(op);
    // Never on disks: after a short write with RWF_NOWAIT, the rest of a write with O_APPEND could land elsewhere.
    struct stat file;
    mode_t type = type_of(op.fd, &file);
    if (on_disk(type)) return op_blocking;
    int64_t put = transfer(op, iovecs, RWF_NOWAIT);
    if (put != -EOPNOTSUPP) return put;
    if (int error = iovecs.check()) return error;
    if (int64_t error = transfer_of_nothing(op)) return error;
    if (op.may_block && iovecs.bytes()) return ready(op.fd, POLLOUT) ? op_blocking : -EAGAIN;
    if (!iovecs.bytes() || nonblocking(op.fd)) return transfer(op, iovecs, 0);
    int64_t result = type == S_IFIFO ? transfer_by_own_opening(op, iovecs, O_WRONLY) : op_blocking;
    return result == op_blocking ? write_if_ready(op, iovecs) : result;
}

// Returns 0 if the process has a free descriptor number, otherwise -EMFILE. It opens an eventfd, not a copy of the
// listener, which the child of a simultaneous fork would inherit.
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
    if (flags & O_NONBLOCK) return retry_eintr(call);
    MutexGuard guard(one_at_a_time);
    // If op.fd is not a listener, the call itself fails at once with the error.
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(op.fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens && !ready(op.fd, POLLIN)) {
        int error = no_free_number(); // without a free number, accept fails before it waits
        return error ? error : -EAGAIN;
    }
    return retry_eintr(call);
}

int64_t connect_now(const Op& op) {
    const auto* address = static_cast<const sockaddr*>(op.address);
    auto call = [&] { return connect(op.fd, address, socklen_t(op.offset)); };
    int flags = fcntl(op.fd, F_GETFL);
    if (flags < 0) return -errno;
    if (flags & O_NONBLOCK) return retry_eintr(call);
    MutexGuard guard(one_at_a_time);
    flags = fcntl(op.fd, F_GETFL);
    fcntl(op.fd, F_SETFL, flags | O_NONBLOCK);
    int64_t result = retry_eintr(call);
    fcntl(op.fd, F_SETFL, flags);
    return result;
}

// Closes a descriptor whose close cannot take long. Closing a file may write it out, a socket may linger, a device may
// drain; for these it returns op_blocking.
int64_t close_now(int fd) {
    struct linger lingers = {};
    socklen_t size = sizeof lingers;
    if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &lingers, &size) == 0) {
        if (lingers.l_onoff && lingers.l_linger) return op_blocking;
    } else {
        struct stat file;
        mode_t type = type_of(fd, &file);
        bool of_memory = type == S_IFCHR && major(file.st_rdev) == 1; // /dev/null and the like have nothing to drain
        if (on_disk(type) || (type == S_IFCHR && !of_memory)) return op_blocking;
    }
    return result_or_errno(close(fd)); // never repeated: the descriptor is closed whatever the result
}

int64_t poll_op_now(const Op& op) {
    if (op.fd < 0) return -EBADF; // poll(2) would ignore it
    pollfd look = {op.fd, short(op.flags), 0};
    int64_t count = retry_eintr([&] { return poll(&look, 1, 0); });
    if (count <= 0) return count < 0 ? count : -EAGAIN;
    return look.revents & POLLNVAL ? -EBADF : uint16_t(look.revents);
}

// Moves bytes from a pipe into a blocking socket without waiting. splice(2) cannot be told not to wait for the socket,
// and even a ready socket may have too little room. So this copies the bytes with tee(2), sends the copy with
// MSG_DONTWAIT, and only then takes from the pipe the bytes that were sent.
int64_t splice_into_waiting_socket(const Op& op, int out) {
    int copy[2];
    if (pipe2(copy, O_CLOEXEC | O_NONBLOCK) < 0) return -errno;
    char bytes[PIPE_BUF];
    size_t most = op.length < sizeof bytes ? op.length : sizeof bytes;
    int64_t result = retry_eintr([&] { return tee(op.fd, copy[1], most, SPLICE_F_NONBLOCK); });
    if (result > 0) result = retry_eintr([&] { return read(copy[0], bytes, size_t(result)); });
    if (result > 0) {
        int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (op.flags & SPLICE_F_MORE ? MSG_MORE : 0);
        result = retry_eintr([&] { return ::send(out, bytes, size_t(result), flags); });
    }
    // A read would wait if another reader had taken the bytes.
    auto take = [&] { return splice(op.fd, nullptr, copy[1], nullptr, size_t(result), SPLICE_F_NONBLOCK); };
    if (result > 0) retry_eintr(take);
    close(copy[0]);
    close(copy[1]);
    return result;
}

// Whether a read of a pipe would return 0: it has neither data nor a writer. Includes a FIFO that no writer has opened
// yet, which poll(2) does not report.
bool has_ended(int fd) {
    if (ready(fd, POLLIN)) return false;
    int copy[2];
    if (pipe2(copy, O_CLOEXEC) < 0) return false;
    ssize_t copied = tee(fd, copy[1], 1, SPLICE_F_NONBLOCK);
    close(copy[0]);
    close(copy[1]);
    return copied == 0;
}

// Splices between a pipe and another descriptor. SPLICE_F_NONBLOCK applies to the pipe only; the other descriptor waits
// unless it has O_NONBLOCK. So a socket is spliced only when it is ready, and a device only on a thread of the pool.
int64_t splice_now(const Op& op) {
    const auto& out = *static_cast<const OutEnd*>(op.address);
    struct stat file;
    mode_t from = type_of(op.fd, &file);
    mode_t to = type_of(out.fd, &file);
    if (from != S_IFIFO && to != S_IFIFO) return result_or_errno(splice_call(op)); // fails with the right error
    mode_t end = from == S_IFIFO ? to : from;
    int end_fd = from == S_IFIFO ? out.fd : op.fd;
    if (on_disk(end)) return op_blocking;
    if (end == S_IFIFO || nonblocking(end_fd)) return result_or_errno(splice_call(op));
    if (from == S_IFIFO && has_ended(op.fd)) return 0;
    if (end == S_IFCHR) return can_splice_device(op) ? op_blocking : -EAGAIN;
    MutexGuard guard(one_at_a_time);
    bool sends = to == S_IFSOCK && int64_t(out.offset) < 0; // a send reports a shutdown that poll(2) does not
    if (!ready(op.fd, POLLIN) || (!ready(out.fd, POLLOUT) && !(sends && must_retry_send(out.fd)))) return -EAGAIN;
    if (sends) return splice_into_waiting_socket(op, out.fd);
    return result_or_errno(splice_call(op, from == S_IFIFO ? PIPE_BUF : SIZE_MAX));
}

int64_t perform_now(const Op& op) {
    int flags = int(op.flags);
    switch (op.code) {
    case OpCode::read:
    case OpCode::readv: return read_now(op);
    case OpCode::write:
    case OpCode::writev: return write_now(op);
    case OpCode::recv:
    case OpCode::send: return recv_or_send_now(op);
    case OpCode::recvmsg:
        return retry_eintr([&] { return recvmsg(op.fd, static_cast<msghdr*>(op.address), flags | MSG_DONTWAIT); });
    case OpCode::sendmsg:
        return retry_eintr(
            [&] { return sendmsg(op.fd, static_cast<msghdr*>(op.address), flags | MSG_DONTWAIT | MSG_NOSIGNAL); });
    case OpCode::accept: return accept_now(op);
    case OpCode::connect: return connect_now(op);
    case OpCode::close: return close_now(int(op.offset));
    case OpCode::poll: return poll_op_now(op);
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

int64_t try_op(const Op& op) {
    KeepErrno keep;
    io_begins(); // for ThreadSanitizer, as for operations of a ring
    int64_t result = perform_now(op);
    io_ends();
    return result;
}

// The child's lock is new and free: the lock guards system calls only, so nothing is left half done. fork() does not
// take the lock, because a thread that holds it may be waiting: another process may have taken the data that poll(2)
// reported.
void try_op_forked() { new (&one_at_a_time) pthread_mutex_t(PTHREAD_MUTEX_INITIALIZER); }

} // namespace fiberrt
