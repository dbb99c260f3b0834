// SPDX-License-Identifier: MIT OR Apache-2.0
// Submissions to a cord's ring, and completions from it: operations, requests to cancel, the doorbell.
#pragma once

#include "base/linux_numbers.h"
#include "base/report.h"
#include "core/backend.h"
#include "backend/uring_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt::uring_impl {

constexpr int64_t cancel_again_ns = 1'000'000;

inline Uring& uring_of(void* state) { return *static_cast<Uring*>(state); }

// ---- An operation as a submission entry

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
        // io_uring ignores POLLPRI when a socket wakes it; urgent data also brings POLLRDBAND.
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
    case OpCode::moment: break; // never given to a ring
    }
    if (op.may_block) io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

// ---- Submissions and completions

inline bool submit_one(Uring& u, Op* op) {
    io_uring_sqe* sqe = io_uring_get_sqe(&u.ring);
    if (!sqe) return false;
    fill(sqe, *op);
    io_uring_sqe_set_data(sqe, op);
    return true;
}

// The completion of a request to cancel carries the Op's address too, and this bit.
constexpr uint64_t of_cancel = 1;

inline bool submit_cancel(Uring& u, Op* op) {
    io_uring_sqe* sqe = io_uring_get_sqe(&u.ring);
    if (!sqe) return false;
    io_uring_prep_cancel(sqe, op, 0);
    io_uring_sqe_set_data64(sqe, reinterpret_cast<uint64_t>(op) | of_cancel);
    op->being_cancelled = true;
    return true;
}

// Ends the process, because the kernel refuses to be entered. Operations that it has may go on for ever in memory that
// fibers wait to get back, so there is no other way.
[[noreturn, gnu::cold, gnu::noinline]] inline void enter_refused(int error) { // coverage where called: ends process
    Report r(STDERR_FILENO, Report::unasked_ns);
    r.put("fiberrt: io_uring_enter was allowed when the thread's ring was made, and now fails with error ");
    r.number(unsigned(-error));
    r.put(": did a filter of system calls come later?\n");
    r.end();
    abort();
}

inline void check_entered(int error) {
    if (!transient(error)) [[unlikely]]
        enter_refused(error);
}

// The completions of the doorbell, and of a request to cancel it.
constexpr uint64_t of_doorbell = 2;
constexpr uint64_t of_doorbell_cancel = 4;

// The completion of an entry that was taken back (withdraw_entry).
constexpr uint64_t of_withdrawn = 8;

// Submits the doorbell, unless the kernel has it. False: the kernel is short of memory and took no entries, so there is
// no room.
inline bool give_doorbell(Uring& u) {
    if (u.doorbell_given) return true;
    io_uring_sqe* sqe = io_uring_get_sqe(&u.ring);
    if (!sqe) { // coverage: no memory
        check_entered(io_uring_submit(&u.ring));
        sqe = io_uring_get_sqe(&u.ring);
        if (!sqe) return false;
    }
    if (u.doorbell_fd >= 0) {
        io_uring_prep_read(sqe, u.doorbell_fd, &u.rings, sizeof u.rings, 0);
    } else {
        io_uring_prep_rw(ioring_op_futex_wait, sqe, int(futex2_size_u32), u.doorbell_word, 0, u.doorbell_asleep);
        sqe->addr3 = futex_any;
    }
    io_uring_sqe_set_data64(sqe, of_doorbell);
    u.doorbell_given = true;
    return true;
}

// Moves operations from the lists to the submission queue, in order of arrival.
inline void refill(Uring& u) {
    while (Op* op = u.without_entry.first) {
        if (!submit_one(u, op)) return;
        u.without_entry.remove(op);
        op->waiting_for_room = false;
    }
    if (u.to_be_cancelled_again.first && clock_now() >= u.again_at_ns) {
        while (Op* op = u.to_be_cancelled_again.first) {
            u.to_be_cancelled_again.remove(op);
            u.to_be_cancelled.push(op);
        }
    }
    while (Op* op = u.to_be_cancelled.first) {
        if (!submit_cancel(u, op)) return;
        u.to_be_cancelled.remove(op);
    }
}

// Ends an operation when the kernel does not use the Op any more: its own completion has come, and the answer to any
// request to cancel it.
inline void finish(Op* op) {
    if (op->queue) op->queue->remove(op);
    op_done(op, op->kernel_result);
}

// Ends the refused operations with the answer that the kernel would give.
inline bool refuse(Uring& u) {
    if (!u.refused.first) return false;
    while (Op* op = u.refused.first) {
        op->waiting_for_room = false;
        finish(op);
    }
    return true;
}

inline void cancel_answered(Uring& u, Op* op, int32_t result) {
    op->being_cancelled = false;
    if (op->finished) {
        finish(op);
    } else if (result != 0) {
        // Not found, or running on a worker thread: both may be true of an operation that is between two states and
        // will go on waiting. So ask again until it has ended. This is rare.
        if (!u.to_be_cancelled_again.first) u.again_at_ns = clock_now() + cancel_again_ns;
        u.to_be_cancelled_again.push(op);
    }
}

inline bool reap(Uring& u) {
    bool some = false;
    io_uring_cqe* cqe;
    // One at a time: the end of an operation may give new ones.
    while (io_uring_peek_cqe(&u.ring, &cqe) == 0) {
        uint64_t data = io_uring_cqe_get_data64(cqe);
        auto* op = reinterpret_cast<Op*>(data & ~of_cancel);
        int32_t result = cqe->res;
        io_uring_cqe_seen(&u.ring, cqe);
        some = true;
        if (data == of_doorbell) {
            u.doorbell_given = false;
            if (u.doorbell_fd >= 0 && result == sizeof u.rings) u.rings_come += u.rings;
        } else if (data == of_doorbell_cancel) {
            // Only the doorbell's own completion matters.
        } else if (data == of_withdrawn) {
            // The waiter has its result already.
        } else if (data & of_cancel) {
            cancel_answered(u, op, result);
        } else {
            op->kernel_result = result;
            op->finished = true;
            if (!op->being_cancelled) finish(op);
        }
    }
    return some;
}

// Sleeps for a moment when the kernel is short of memory and took no entries: asking again at once would waste the
// processor.
inline void pause_for_memory() {
    timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
}

// Whether the kernel has work or completions for which the thread must enter it.
inline bool kernel_has_work(Uring& u) {
    return IO_URING_READ_ONCE(*u.ring.sq.kflags) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

// Submits the entries that fit, and lets the kernel finish what it can at once. Enters the kernel only if it must.
// Returns not 0 if it entered, less than 0 if the kernel took nothing.
inline int enter_if_due(Uring& u) {
    refill(u);
    bool work = kernel_has_work(u);
    if (!work && !io_uring_sq_ready(&u.ring)) return 0;
    int error = work ? io_uring_submit_and_get_events(&u.ring) : io_uring_submit(&u.ring);
    check_entered(error);
    return error ? error : work;
}

} // namespace fiberrt::uring_impl
