// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations by plain system calls that never block the thread.
#pragma once

#include "io/op.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

namespace fiberrt {

// The result of an attempt at what only another thread may do, as it could block this one: disks, terminals.
constexpr int64_t op_blocking = INT64_MIN;

// Performs an operation if that can be had at once. What the call answered, 0 or more or -errno; -EAGAIN if it would
// have to wait for readiness or for room; op_blocking. Descriptors with and without O_NONBLOCK alike:
// - of a blocking listener, and of what the kernel cannot transfer without waiting (RWF_NOWAIT), readiness is asked for
//   first, under one lock of the process. Another process that takes the readiness away in between leaves this thread
//   blocked: share O_NONBLOCK listeners only;
// - a blocking socket gets O_NONBLOCK for the moment of its connect, under that lock too.
int64_t attempt(const Op& op);

// Whether an eventfd, a timerfd or a signalfd refuses so few bytes at once, with -EINVAL, whether or not it is ready.
// False also where /proc does not tell what the descriptor is.
bool too_short_to_wait(int fd, size_t bytes);

void attempts_forked(); // in the child of a fork: nobody is about it

// A call's result as operations have it.
inline int64_t answer(int64_t result) { return result < 0 ? -errno : result; }

// Again, if a signal came.
template <class Call>
inline int64_t steadily(Call call) {
    int64_t result;
    do {
        result = answer(call());
    } while (result == -EINTR);
    return result;
}

// The attempt of OpCode::recv or send; it changes errno.
inline int64_t recv_or_send_now(const Op& op) {
    int flags = int(op.flags) | MSG_DONTWAIT;
    io_begins();
    int64_t result = op.code == OpCode::recv
                         ? steadily([&] { return ::recv(op.fd, op.address, op.length, flags); })
                         : steadily([&] { return ::send(op.fd, op.address, op.length, flags | MSG_NOSIGNAL); });
    io_ends();
    return result;
}

} // namespace fiberrt
