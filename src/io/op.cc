// SPDX-License-Identifier: MIT OR Apache-2.0
// Ends of operations: by themselves, or early because of a cancel, an interrupt, a deadline or a close of the
// descriptor.
#include "io/op.h"

#include "base/planted.h"
#include "base/readable.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "io/try_op.h"
#include "core/backend.h"
#include "core/scheduler.h"
#include "io/io.h"
#include "io/sockets.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

namespace fiberrt {

bool uring_may_use_futex_op = true; // here, so that tests find them without io_uring too
uint32_t uring_refused_ops = 0;

namespace {

// Priority of reasons for ending an operation early; the highest is reported.
int rank(int reason) {
    switch (reason) {
    case -EBADF: return 4; // its descriptor is being closed
    case -ECANCELED: return 3;
    case -EINTR: return 2;
    case -ETIMEDOUT:
    case -EDEADLK: return 1; // no deadline exists, so no timeout can come as well
    default: return 0;
    }
}

// The events that end the wait of an operation; 0: it does not wait for its descriptor to be ready.
int events_awaited(const Op& op) {
    switch (op.code) {
    case OpCode::recv:
    case OpCode::recvmsg: return op.flags & MSG_OOB ? POLLPRI : POLLIN;
    case OpCode::read:
    case OpCode::readv:
    case OpCode::splice:
    case OpCode::copy_range:
    case OpCode::accept: return POLLIN;
    case OpCode::write:
    case OpCode::writev:
    case OpCode::send:
    case OpCode::sendmsg:
    case OpCode::connect: return POLLOUT;
    case OpCode::poll: return int(op.flags);
    default: return 0;
    }
}

// Returns which of the events that the operation awaits hold now; 0: none.
int look(const Op& op) {
    int events = events_awaited(op);
    int now = events ? events_now(op.fd, events) : 0;
    bool into = op.code == OpCode::splice || op.code == OpCode::copy_range;
    if (now && into) now = events_now(static_cast<const OutEnd*>(op.address)->fd, POLLOUT);
    return now & POLLNVAL ? 0 : now;
}

// The result of an operation that was stopped. If its descriptor was ready when it was stopped, the operation counts as
// done and is tried.
int64_t result_of_stopped(const Op& op) {
    if (!op.seen || is_blocking_read(op) || io_of(*this_cord).ending) return op.stop_reason;
    if (op.code == OpCode::poll) return op.seen;
    int64_t result = last_try(op);
    return result == -EAGAIN ? op.stop_reason : result;
}

} // namespace

bool note_stop(Op& op, int reason) {
    bool first = op.stop_reason == 0;
    if (rank(reason) > rank(op.stop_reason)) op.stop_reason = reason;
    return first;
}

int64_t result_if_shut_down(const Op& op) {
    bool of_sockets = op.code == OpCode::recv || op.code == OpCode::recvmsg || op.code == OpCode::accept;
    bool receives = of_sockets || op.code == OpCode::read || op.code == OpCode::readv;
    if (!receives || !(events_now(op.fd, POLLRDHUP) & POLLRDHUP)) return -EAGAIN;
    int64_t result = try_op(op);
    if (result == op_blocking) return -EAGAIN;
    if (result != -EAGAIN) return result;
    if (op.code == OpCode::accept) return -EINVAL;
    if (op.code == OpCode::recvmsg) {
        auto* message = static_cast<msghdr*>(op.address);
        message->msg_namelen = 0;
        message->msg_controllen = 0;
        message->msg_flags = 0;
    }
    return 0;
}

int64_t last_try(const Op& op) {
    int64_t result = try_op(op);
    bool looks = op.code == OpCode::read || op.code == OpCode::readv || op.code == OpCode::splice; // poll first
    if (result == op_blocking && op.may_block && looks) result = blocking_fallback(op);            // device or disk
    if (result == op_blocking) return -EAGAIN;
    if (result == -EAGAIN) return result_if_shut_down(op);
    if (op.code != OpCode::connect) return result;
    return result == -EISCONN ? 0 : result == -EINPROGRESS || result == -EALREADY ? -EAGAIN : result;
}

bool has_negative_length(const Op& accept) {
    const void* length = accept.address2; // may point nowhere: a ring that refuses accepts has not read it
    return length && check_readable(length, sizeof(socklen_t)) == 0 && int(*static_cast<const socklen_t*>(length)) < 0;
}

// The wait goes on until the backend reports the end, because the kernel may still write into the fiber's memory. Until
// then the operation is not tried again, because the kernel may yet perform it.
void stop_op(Wait* wait, int reason) {
    auto* op = static_cast<Op*>(wait);
    bool first = note_stop(*op, reason);
    if (PLANTED(a_double_completion) && op->finished) return wake(op, reason);
    if (!first) return;
    op->seen = look(*op);
    CordIo& io = *this_cord->io;
    io.backend->cancel(io.state, op);
}

void mark_filled(const Op& op, int64_t result) {
    if (result < 0) return;
    auto spread = [](const iovec* iov, size_t count, int64_t bytes) {
        for (size_t i = 0; i < count && bytes > 0; i++) {
            int64_t here = int64_t(iov[i].iov_len) < bytes ? int64_t(iov[i].iov_len) : bytes;
            hooks::memory_filled(iov[i].iov_base, size_t(here));
            bytes -= here;
        }
    };
    switch (op.code) {
    case OpCode::read:
    case OpCode::recv: // with MSG_TRUNC the result may exceed the bytes written
        hooks::memory_filled(op.address, result < op.length ? size_t(result) : op.length);
        break;
    case OpCode::readv: spread(static_cast<const iovec*>(op.address), op.length, result); break;
    case OpCode::recvmsg: {
        auto* message = static_cast<msghdr*>(op.address);
        hooks::memory_filled(message, sizeof *message);
        spread(message->msg_iov, message->msg_iovlen, result);
        hooks::memory_filled(message->msg_name, message->msg_namelen);
        hooks::memory_filled(message->msg_control, message->msg_controllen);
        break;
    }
    case OpCode::accept:
        if (!op.address2) break;
        hooks::memory_filled(op.address2, sizeof(socklen_t));
        hooks::memory_filled(op.address, *static_cast<socklen_t*>(op.address2));
        break;
    case OpCode::statx: hooks::memory_filled(op.address2, sizeof(struct statx)); break;
    default: break;
    }
}

void op_done(Op* op, int32_t result) {
    io_ends();
    this_cord->io->in_flight--;
    // ERESTARTSYS and its kin, the kernel's inner codes for "a signal came", which some operations return.
    if (result <= -512 && result >= -516 && result != -515) result = -EINTR;
    // An operation that was asked to end early may have completed nevertheless; then its result stands. If no fiber
    // asked, -ECANCELED and -EINTR do not reach the caller, which would take them for its own: the kernel itself
    // cancels an operation for which it has no thread.
    if (op->stop_reason && (result == -ECANCELED || result == -EINTR)) {
        wake(op, result_of_stopped(*op));
        return;
    }
    if (result == -ECANCELED) {
        result = op->code == OpCode::poll ? op_again : op_no_thread; // a poll needs no thread
    } else if (result == -EINTR) {
        result = op_again;
    }
    wake(op, result);
}

} // namespace fiberrt
