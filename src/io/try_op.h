// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations by plain system calls that never block the thread.
//
// The main caller is DescriptorGuard (io/descriptor_guard.h): on libev for every operation, and with a ring for
// operations that the ring would give to a worker thread.
#pragma once

#include "io/op.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

namespace fiberrt {

// The result of the try of an operation that only another thread may perform, because it could block this thread:
// disks, terminals.
constexpr int64_t op_blocking = INT64_MIN;

// Performs an operation if it can be done without a wait. Returns the call's result, 0 or more or -errno; -EAGAIN if it
// would have to wait for readiness or room; op_blocking if only another thread may perform it. Works the same on
// descriptors with and without O_NONBLOCK:
// - For a blocking listener, and for transfers that the kernel cannot make without waiting (no RWF_NOWAIT), it polls
//   first, under one lock of the process. If another process takes the data or connection in between, this thread
//   blocks; so a listener that processes share must have O_NONBLOCK.
// - A blocking socket has O_NONBLOCK while its connect runs, under the same lock.
int64_t try_op(const Op& op);

// Whether the descriptor is an eventfd, a timerfd or a signalfd and refuses so few bytes with -EINVAL, ready or not.
// False also if /proc does not tell the descriptor's type.
bool too_short_to_wait(int fd, size_t bytes);

void try_op_forked(); // in the child of a fork: frees the lock

// Turns a system call's result into an operation's: -errno instead of -1.
inline int64_t result_or_errno(int64_t result) { return result < 0 ? -errno : result; }

// Makes a system call, again and again if a signal interrupts it (EINTR).
template <class Call>
inline int64_t retry_eintr(Call call) {
    int64_t result;
    do {
        result = result_or_errno(call());
    } while (result == -EINTR);
    return result;
}

// try_op() for OpCode::recv and send, inline for speed; it changes errno.
inline int64_t recv_or_send_now(const Op& op) {
    int flags = int(op.flags) | MSG_DONTWAIT;
    io_begins();
    int64_t result = op.code == OpCode::recv
                         ? retry_eintr([&] { return ::recv(op.fd, op.address, op.length, flags); })
                         : retry_eintr([&] { return ::send(op.fd, op.address, op.length, flags | MSG_NOSIGNAL); });
    io_ends();
    return result;
}

} // namespace fiberrt
