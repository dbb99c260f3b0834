// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls on descriptors of fibers without a stack: some run in steps (io/hosted_transfer.h), the others on a fiber
// with a stack.
#include "io/hosted_calls.h"

#include "base/keep_errno.h"
#include "io/close.h"
#include "io/connection.h"
#include "io/file_status.h"
#include "io/hosted_transfer.h"
#include "io/message.h"
#include "io/read_write.h"
#include "io/ready.h"
#include "stackless/call.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace fiberrt {

namespace {

// ---- Calls that a fiber with a stack makes --------------------------------------------------------------------------

int64_t call_transfer(fiber_op_t& r) { // coverage: names
    Cord& cord = *this_cord;
    switch (r.code) {
    case FIBER_OP_READ: return read_bytes(r.fd, r.address, r.length, own_position, OpCode::read, cord);
    case FIBER_OP_WRITE: return write_bytes(r.fd, r.address, r.length, own_position, OpCode::write, cord);
    case FIBER_OP_RECV: return transfer_message(r.fd, r.address, r.length, r.mode, OpCode::recv, cord);
    case FIBER_OP_SEND: return transfer_message(r.fd, r.address, r.length, r.mode | MSG_NOSIGNAL, OpCode::send, cord);
    case FIBER_OP_ACCEPT: {
        auto* length = static_cast<socklen_t*>(r.address ? r.address2 : nullptr);
        return accept_connection(cord, r.fd, static_cast<sockaddr*>(r.address), length, r.mode);
    }
    default: {
        DescriptorGuard guard(cord, r.fd);
        return wait_for_events(guard, r.fd, r.mode);
    }
    }
}

int64_t call_connect(fiber_op_t& r) {
    return connect_socket(*this_cord, r.fd, static_cast<sockaddr*>(r.address), socklen_t(r.length));
}

int64_t call_close(fiber_op_t& r) { return io_close(*this_cord, r.fd); }

// ---- In steps -------------------------------------------------------------------------------------------------------

int64_t transfer(Cord& cord, Fiber* fiber, HostedOp& op, const HostedTransfer::What& what) {
    auto by_stack = [](Cord& c, Fiber* f, HostedOp& o) { return call_by_stack(c, f, o, call_transfer); };
    return HostedTransfer::begin(cord, fiber, op, what, by_stack);
}

HostedTransfer::What bytes(const fiber_op_t& r, OpCode code, int flags, int events) {
    return {code, r.fd, flags, events, r.address, nullptr, at_once(r.length), false};
}

int64_t send_or_recv(Cord& cord, Fiber* fiber, HostedOp& op, bool send, int flags) {
    int events = message_events(send, &flags);
    return transfer(cord, fiber, op, bytes(record_of(op), send ? OpCode::send : OpCode::recv, flags, events));
}

int64_t read_or_write(Cord& cord, Fiber* fiber, HostedOp& op, bool write) {
    const fiber_op_t& r = record_of(op);
    struct stat file;
    {
        KeepErrno keep;
        if (fstat(r.fd, &file) < 0) return -errno;
    }
    mode_t type = file.st_mode & S_IFMT;
    if (type == S_IFSOCK && write) return send_or_recv(cord, fiber, op, true, MSG_NOSIGNAL);
    // Other descriptors have positions, or their reads need more than a retry when they are ready.
    bool plain = type == S_IFSOCK || (type == S_IFIFO && !is_named_fifo(file)) || type == 0;
    bool short_write = !type && write && r.length < sizeof(uint64_t); // see write_file() in io/read_write.cc
    if (!plain || !r.length || short_write) return call_by_stack(cord, fiber, op, call_transfer);
    HostedTransfer::What what = bytes(r, write ? OpCode::write : OpCode::read, 0, write ? POLLOUT : POLLIN);
    what.try_first = !type && !write; // see run_read
    return transfer(cord, fiber, op, what);
}

} // namespace

int64_t begin_read(Cord& cord, Fiber* fiber, HostedOp& op) { return read_or_write(cord, fiber, op, false); }

int64_t begin_write(Cord& cord, Fiber* fiber, HostedOp& op) { return read_or_write(cord, fiber, op, true); }

int64_t begin_recv(Cord& cord, Fiber* fiber, HostedOp& op) {
    int flags = record_of(op).mode;
    if (flags & MSG_WAITALL) return call_by_stack(cord, fiber, op, call_transfer);
    return send_or_recv(cord, fiber, op, false, flags);
}

int64_t begin_send(Cord& cord, Fiber* fiber, HostedOp& op) {
    return send_or_recv(cord, fiber, op, true, record_of(op).mode | MSG_NOSIGNAL);
}

int64_t begin_accept(Cord& cord, Fiber* fiber, HostedOp& op) {
    const fiber_op_t& r = record_of(op);
    void* length = r.address ? r.address2 : nullptr;
    return transfer(cord, fiber, op, {OpCode::accept, r.fd, r.mode, POLLIN, r.address, length, 0, false});
}

int64_t begin_connect(Cord& cord, Fiber* fiber, HostedOp& op) { return call_by_stack(cord, fiber, op, call_connect); }

int64_t begin_poll(Cord& cord, Fiber* fiber, HostedOp& op) {
    const fiber_op_t& r = record_of(op);
    return transfer(cord, fiber, op, {OpCode::poll, r.fd, 0, r.mode, nullptr, nullptr, 0, false});
}

int64_t begin_close(Cord& cord, Fiber* fiber, HostedOp& op) {
    return call_by_stack(cord, fiber, op, call_close, Stops::no);
}

} // namespace fiberrt
