// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord's I/O: operations between the fibers that wait for them and the backend that performs them.
#include "io/io.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "core/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <new>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

namespace fiberrt {

namespace {

Io& io_of(Cord& cord) { return *static_cast<Io*>(cord.io); }

// Of two reasons to end an operation early, which one its waiter is told.
int rank(int reason) {
    switch (reason) {
    case -EBADF: return 4; // its descriptor is being closed
    case -ECANCELED: return 3;
    case -EINTR: return 2;
    case -ETIMEDOUT: return 1;
    default: return 0;
    }
}

// The kernel may still be writing into the waiter's memory: the wait goes on until the backend reports the end.
void stop_op(Wait* wait, int reason) {
    auto* op = static_cast<Op*>(wait);
    bool first = op->stop_reason == 0;
    if (rank(reason) > rank(op->stop_reason)) op->stop_reason = reason;
    Io& io = io_of(*this_cord);
    if (first) io.backend->cancel(io.state, op);
}

// operator new would make the library need the C++ runtime's.
template <class T>
T* make() {
    void* memory = malloc(sizeof(T));
    return memory ? new (memory) T : nullptr;
}

void io_end(Cord& cord) {
    Io& io = io_of(cord);
    auto cancel_all = [&](List<Op>& ops) {
        for (Op* op = ops.front(); op;) {
            Op* next = ops.after(op);
            if (!op->stop_reason) stop_op(op, -ECANCELED);
            op = next;
        }
    };
    cancel_all(io.unbound);
    for (int fd = 0; fd < io.descriptor_count; fd++) {
        if (io.descriptors[fd]) cancel_all(io.descriptors[fd]->ops);
    }
    while (io.in_flight) io.backend->poll(io.state, never);
    io.backend->close(io.state);
    for (int fd = 0; fd < io.descriptor_count; fd++) free(io.descriptors[fd]);
    free(io.descriptors);
    free(&io);
    cord.io = nullptr;
}

int io_open(Cord& cord) {
    KeepErrno keep;
    auto* io = make<Io>();
    if (!io) return -ENOMEM;
    int error = -ENOTSUP;
#ifdef FIBERRT_HAVE_URING
    io->backend = &uring_backend;
    error = io->backend->open(&io->state);
#endif
    if (error) {
        free(io);
        return error;
    }
    io->end = io_end;
    cord.io = io;
    return 0;
}

// The list entry of a descriptor, made if it is missing. -EBADF, -ENOMEM.
int descriptor_entry(Io& io, int fd, Io::Descriptor** out) {
    if (fd < 0) return -EBADF;
    if (fd >= io.descriptor_count) {
        KeepErrno keep;
        // A number that is not open must not make the table huge.
        if (fcntl(fd, F_GETFD) < 0) return -EBADF;
        int64_t count = io.descriptor_count ? io.descriptor_count : 64;
        while (count <= fd) count *= 2;
        auto** grown = static_cast<Io::Descriptor**>(realloc(io.descriptors, size_t(count) * sizeof(void*)));
        if (!grown) return -ENOMEM;
        for (int64_t i = io.descriptor_count; i < count; i++) grown[i] = nullptr;
        io.descriptors = grown;
        io.descriptor_count = int(count > INT32_MAX ? INT32_MAX : count);
    }
    if (!io.descriptors[fd]) {
        io.descriptors[fd] = make<Io::Descriptor>();
        if (!io.descriptors[fd]) return -ENOMEM;
    }
    *out = io.descriptors[fd];
    return 0;
}

// Tells Valgrind what the kernel has written on behalf of an operation.
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
    case OpCode::recv: hooks::memory_filled(op.address, size_t(result)); break;
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

int64_t give_and_park(Cord& cord, Op& op) {
    Io& io = io_of(cord);
    io.given++;
    io.in_flight++;
    io.backend->give(io.state, &op);
    return park(cord, op);
}

} // namespace

void op_done(Op* op, int32_t result) {
    Cord& cord = *this_cord;
    Io& io = io_of(cord);
    io.in_flight--;
    op->unlink();
    if (op->fd >= 0) {
        Io::Descriptor& descriptor = *io.descriptors[op->fd];
        bool closer_parked = descriptor.closer && descriptor.closer->fiber;
        if (closer_parked && descriptor.ops.empty()) wake(descriptor.closer, 0);
    }
    // An operation that was asked to end early may have completed all the same; then its result stands.
    if (op->stop_reason && (result == -ECANCELED || result == -EINTR)) result = op->stop_reason;
    else if (result == -ECANCELED) result = -EIO;
    wake(op, result);
}

int64_t io_run(Cord& cord, Op& op) {
    Fiber* me = cord.current;
    for (;;) {
        if (me->attention) return attend(cord, me);
        if (!cord.io) {
            int error = io_open(cord);
            if (error) return error;
        }
        if (op.fd == -1 && op.code != OpCode::open && op.code != OpCode::statx) return -EBADF;
        if (op.fd == -1) {
            io_of(cord).unbound.push_back(&op);
        } else {
            Io::Descriptor* descriptor;
            int error = descriptor_entry(io_of(cord), op.fd, &descriptor);
            if (error) return error;
            if (descriptor->closer) return -EBADF;
            descriptor->ops.push_back(&op);
        }
        op.stop = stop_op;
        op.stop_reason = 0;
        int64_t result = give_and_park(cord, op);
        // A signal met the kernel's worker, nobody spoke to this fiber: once more.
        if (result == -EINTR && op.stop_reason == 0) continue;
        mark_filled(op, result);
        return result;
    }
}

int io_close(Cord& cord, int fd) {
    Fiber* me = cord.current;
    if (me->attention & attention_noswitch) return -EPERM;
    if (!cord.io) {
        int error = io_open(cord);
        if (error) return error;
    }
    Io& io = io_of(cord);
    if (fd < 0) return -EBADF;
    Io::Descriptor* descriptor = fd < io.descriptor_count ? io.descriptors[fd] : nullptr;
    Wait closer;
    if (descriptor) {
        if (descriptor->closer) return -EBADF;
        descriptor->closer = &closer; // from here on nobody else gets an operation onto it
        for (Op* op = descriptor->ops.front(); op;) {
            Op* next = descriptor->ops.after(op);
            stop_op(op, -EBADF); // may end the operation at once
            op = next;
        }
        if (!descriptor->ops.empty()) park(cord, closer);
        // Before the kernel closes it: whoever gets the number next must not be refused. What another fiber still gives
        // reaches the kernel after the request to close.
        descriptor->closer = nullptr;
    }
    Op op(OpCode::close, -1);
    op.offset = uint64_t(fd);
    io.unbound.push_back(&op);
    return int(give_and_park(cord, op));
}

} // namespace fiberrt
