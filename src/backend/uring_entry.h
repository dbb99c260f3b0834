// SPDX-License-Identifier: MIT OR Apache-2.0
// An operation as a submission entry.
#pragma once

#include "io/op.h"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/socket.h>

namespace fiberrt::uring_impl {

inline int folder_of(const Op& op) { return int(int64_t(op.offset)); }
inline const char* path_of(const Op& op) { return static_cast<const char*>(op.address); }

inline void fill(io_uring_sqe* sqe, Op& op) {
    switch (op.code) {
    case OpCode::read: io_uring_prep_read(sqe, op.fd, op.address, op.length, op.offset); break;
    case OpCode::write: io_uring_prep_write(sqe, op.fd, op.address, op.length, op.offset); break;
    case OpCode::readv:
        io_uring_prep_readv(sqe, op.fd, static_cast<const iovec*>(op.address), op.length, op.offset);
        break;
    case OpCode::writev:
        io_uring_prep_writev(sqe, op.fd, static_cast<const iovec*>(op.address), op.length, op.offset);
        break;
    case OpCode::recv: io_uring_prep_recv(sqe, op.fd, op.address, op.length, int(op.flags)); break;
    case OpCode::send: io_uring_prep_send(sqe, op.fd, op.address, op.length, int(op.flags)); break;
    case OpCode::recvmsg: io_uring_prep_recvmsg(sqe, op.fd, static_cast<msghdr*>(op.address), op.flags); break;
    case OpCode::sendmsg: io_uring_prep_sendmsg(sqe, op.fd, static_cast<msghdr*>(op.address), op.flags); break;
    case OpCode::accept:
        io_uring_prep_accept(sqe, op.fd, static_cast<sockaddr*>(op.address), static_cast<socklen_t*>(op.address2),
                             int(op.flags));
        break;
    case OpCode::connect:
        io_uring_prep_connect(sqe, op.fd, static_cast<sockaddr*>(op.address), socklen_t(op.offset));
        break;
    case OpCode::open: io_uring_prep_openat(sqe, AT_FDCWD, path_of(op), int(op.flags), op.length); break;
    case OpCode::close: io_uring_prep_close(sqe, int(op.offset)); break;
    case OpCode::statx:
        io_uring_prep_statx(sqe, folder_of(op), path_of(op), int(op.flags), op.length,
                            static_cast<struct statx*>(op.address2));
        break;
    case OpCode::fsync: io_uring_prep_fsync(sqe, op.fd, op.flags); break;
    case OpCode::poll:
        // io_uring does not look at POLLPRI when a socket tells of news; with urgent data comes POLLRDBAND, too.
        io_uring_prep_poll_add(sqe, op.fd, op.flags & POLLPRI ? op.flags | POLLRDBAND : op.flags);
        break;
    case OpCode::open2:
        io_uring_prep_openat2(sqe, folder_of(op), path_of(op), static_cast<struct open_how*>(op.address2));
        sqe->len = op.length;
        break;
    case OpCode::rename:
        io_uring_prep_renameat(sqe, folder_of(op), path_of(op), int(op.length), static_cast<const char*>(op.address2),
                               op.flags);
        break;
    case OpCode::unlink: io_uring_prep_unlinkat(sqe, folder_of(op), path_of(op), int(op.flags)); break;
    case OpCode::mkdir: io_uring_prep_mkdirat(sqe, folder_of(op), path_of(op), op.length); break;
    case OpCode::splice: {
        const auto* out = static_cast<const OutEnd*>(op.address);
        io_uring_prep_splice(sqe, op.fd, int64_t(op.offset), out->fd, int64_t(out->offset), op.length,
                             op.flags | SPLICE_F_NONBLOCK);
        break;
    }
    case OpCode::getdents:
    case OpCode::copy_range:
    case OpCode::moment: break; // not given
    }
    if (op.may_block) io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

} // namespace fiberrt::uring_impl
