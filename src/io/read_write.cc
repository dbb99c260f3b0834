// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads and writes. This file makes up for the differences between io_uring and POSIX: O_NONBLOCK, SIGPIPE, positions,
// devices.
#include "io/read_write.h"

#include "core/cord.h"
#include "io/empty_transfer.h"
#include "io/file_status.h"
#include "io/iovecs.h"
#include "io/message.h"
#include "io/message_layout.h"
#include "io/position.h"
#include "io/ready.h"
#include "io/terminal_read.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace fiberrt {

namespace {

// Whether the operation has bytes to transfer, and no array of buffers that might be unreadable.
bool is_plain(const Op& op) { return (op.code == OpCode::read || op.code == OpCode::write) && op.length; }

int64_t write_file(Cord& cord, OpCode code, int fd, const struct stat& file, const void* address, size_t length,
                   int64_t position) {
    DescriptorGuard guard(cord, fd);
    Op op = buffer_op(code, fd, address, length, position);
    op.may_block = type_of(file) == S_IFCHR; // a ready terminal begins a write at once, but the write may then block
    if (!cord.sched.current->sched.pending && !simulated() && !counts_position(file)) {
        int64_t answer = is_plain(op) ? not_answered : answer_at_once(guard, op, file);
        if (answer != not_answered) return answer;
        // An eventfd refuses so few bytes at once; a ring would wait until it is ready.
        if (!type_of(file) && Iovecs(op).bytes() < sizeof(uint64_t)) {
            return until_ready(guard, op, POLLOUT,
                               [&](bool reported_ready) { return guard.try_or_run(op, reported_ready); });
        }
        int error = op.may_block ? check_write(fd) : 0;
        if (error) return error;
    }
    if (position == own_position && counts_position(file)) return run_at_position(guard, op, file, POLLOUT);
    return run_until_ready(guard, op, POLLOUT);
}

// Writes buffers to a socket. Like writev(2) it sends no empty datagram. It reads the array before the kernel does,
// without checking that it is readable: a check would cost one more call for each write.
int64_t writev_socket(Cord& cord, int fd, const iovec* iov, size_t count) {
    if (all_empty(iov, int(count))) {
        DescriptorGuard guard(cord, fd);
        return guard.check();
    }
    msghdr header = {};
    header.msg_iov = const_cast<iovec*>(iov);
    header.msg_iovlen = BufferCount(count);
    return transfer_message(fd, &header, 1, MSG_NOSIGNAL, OpCode::sendmsg, cord);
}

} // namespace

int64_t read_bytes(int fd, const void* address, size_t length, int64_t position, OpCode code, Cord& cord) {
    Fiber* me = cord.sched.current;
    struct stat file = {};
    if (!me->sched.pending && position != own_position) {
        // A ring would ignore the position of an operation on a pipe, and take data that pread must not take.
        file = status_of(fd);
        if (!has_positions(fd, file, false)) return -ESPIPE;
    }
    DescriptorGuard guard(cord, fd);
    Op op = buffer_op(code, fd, address, length, position);
    // Returns the pending cancel, interrupt or timeout
    if (me->sched.pending) return run_until_ready(guard, op, POLLIN);
    if (position == own_position) file = status_of(fd);
    if (counts_position(file)) {
        return position == own_position ? run_at_position(guard, op, file, POLLIN) : run_until_ready(guard, op, POLLIN);
    }
    int64_t answer = is_plain(op) || simulated() ? not_answered : answer_at_once(guard, op, file);
    return answer != not_answered ? answer : run_read(guard, op, file);
}

int64_t write_bytes(int fd, const void* address, size_t length, int64_t position, OpCode code, Cord& cord) {
    struct stat file = status_of(fd);
    if (position != own_position) {
        if (!cord.sched.current->sched.pending && !has_positions(fd, file, true)) return -ESPIPE;
    } else if (type_of(file) == S_IFSOCK) { // only a send can be told to raise no SIGPIPE
        if (code == OpCode::write) return transfer_message(fd, address, length, MSG_NOSIGNAL, OpCode::send, cord);
        return writev_socket(cord, fd, static_cast<const iovec*>(address), length);
    }
    return write_file(cord, code, fd, file, address, length, position);
}

int64_t run_read(DescriptorGuard& guard, Op& op, const struct stat& file) {
    TerminalMode mode;
    mode_t type = type_of(file);
    if (simulated() || type == S_IFSOCK || (type == S_IFIFO && !is_named_fifo(file))) {
        return run_until_ready(guard, op, POLLIN);
    }
    if (type == S_IFCHR) {
        if (terminal_mode(op.fd, &mode)) return read_as_foreground(guard, op, mode);
        op.may_block = true;
    }
    // A ring waits until poll(2) reports an event. Some reads end without one: of a FIFO that has no writer, or of a
    // descriptor that cannot be read at all, such as an epoll instance.
    auto run = [&](bool reported_ready) {
        if (guard.backend_only_polls() || (type == S_IFIFO && ready_now(op.fd, POLLIN)))
            return guard.run(op, reported_ready);
        int64_t result = guard.try_or_run(op, reported_ready);
        return result == -EAGAIN && !type ? guard.run(op, reported_ready) : result;
    };
    return until_ready(guard, op, POLLIN, run, true);
}

} // namespace fiberrt
