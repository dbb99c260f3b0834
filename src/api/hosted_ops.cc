// SPDX-License-Identifier: MIT OR Apache-2.0
// The operations of stackless fibers: checks the record of each, and begins it. Each is the call of the same name, begun
// by the fiber and gone on with at its turn.
#include "api/hosted_ops.h"

#include "api/api.h"
#include "api/in_place.h"
#include "base/keep_errno.h"
#include "io/file_status.h"
#include "io/hosted_transfer.h"
#include "io/message.h"
#include "stackless/call.h"
#include "stackless/operations.h"
#include "sync/channel.h"
#include "sync/event.h"
#include "sync/mutex.h"
#include "sync/rwlock.h"
#include "sync/semaphore.h"
#include "sync/wait_group.h"

#include <limits.h>
#include <poll.h>
#include <sys/stat.h>

using namespace fiberrt;
using api::in_place;

namespace {

// ---- Input and output -----------------------------------------------------------------------------------------------

int64_t call_transfer(fiber_op_t& r) {
    switch (r.code) {
    case FIBER_OP_READ: return fiber_read(r.fd, r.address, r.length);
    case FIBER_OP_WRITE: return fiber_write(r.fd, r.address, r.length);
    case FIBER_OP_RECV: return fiber_recv(r.fd, r.address, r.length, r.mode);
    case FIBER_OP_SEND: return fiber_send(r.fd, r.address, r.length, r.mode);
    case FIBER_OP_ACCEPT:
        return fiber_accept4(r.fd, static_cast<sockaddr*>(r.address), static_cast<socklen_t*>(r.address2), r.mode);
    default: return fiber_poll_fd(r.fd, r.mode);
    }
}

int64_t transfer(Cord& cord, Fiber* fiber, HostedOp& op, const HostedTransfer::What& what) {
    auto by_stack = [](Cord& c, Fiber* f, HostedOp& o) { return call_by_stack(c, f, o, call_transfer); };
    return HostedTransfer::begin(cord, fiber, op, what, by_stack);
}

HostedTransfer::What bytes(const fiber_op_t& r, OpCode code, int flags, int events) {
    return {code, r.fd, flags, events, r.address, nullptr, at_once(r.length), false};
}

// flags: with MSG_NOSIGNAL, if it sends.
int64_t message(Cord& cord, Fiber* fiber, HostedOp& op, bool send, int flags) {
    if (flags & MSG_WAITALL && !send) return call_by_stack(cord, fiber, op, call_transfer);
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
    if (type == S_IFSOCK && write) return message(cord, fiber, op, true, MSG_NOSIGNAL);
    // The others have positions, or reads that are not just tried again when they are ready.
    bool plain = type == S_IFSOCK || (type == S_IFIFO && !is_named_fifo(file)) || type == 0;
    bool short_write = !type && write && r.length < sizeof(uint64_t); // see write_file() in io/read_write.cc
    if (!plain || !r.length || short_write) return call_by_stack(cord, fiber, op, call_transfer);
    HostedTransfer::What what = bytes(r, write ? OpCode::write : OpCode::read, 0, write ? POLLOUT : POLLIN);
    what.try_first = !type && !write; // see run_read
    return transfer(cord, fiber, op, what);
}

int64_t accept_one(Cord& cord, Fiber* fiber, HostedOp& op) {
    const fiber_op_t& r = record_of(op);
    if ((r.address && !r.address2) || (r.mode & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))) return -EINVAL;
    void* length = r.address ? r.address2 : nullptr;
    return transfer(cord, fiber, op, {OpCode::accept, r.fd, r.mode, POLLIN, r.address, length, 0, false});
}

int64_t poll_fd(Cord& cord, Fiber* fiber, HostedOp& op) {
    const fiber_op_t& r = record_of(op);
    if (r.mode <= 0 || r.mode > 0xffff) return -EINVAL;
    return transfer(cord, fiber, op, {OpCode::poll, r.fd, 0, r.mode, nullptr, nullptr, 0, false});
}

int64_t call_connect(fiber_op_t& r) {
    return fiber_connect(r.fd, static_cast<sockaddr*>(r.address), socklen_t(r.length));
}

int64_t call_close(fiber_op_t& r) { return fiber_close(r.fd); }

int64_t call_join(fiber_op_t& r) { return fiber_join({r.target}, &r.value); }

int64_t call_function(fiber_op_t& r) { return r.function(r.address); }

// ---- All of them ----------------------------------------------------------------------------------------------------

bool bad_buffer(const fiber_op_t& r) { return (!r.address && r.length) || r.length > SSIZE_MAX; }

// What lies in the user's memory.
int64_t wait_for(Cord& cord, const fiber_op_t& r, int64_t timeout_ns) {
    Caller caller = Caller::of(cord);
    if (!r.address) return -EINVAL;
    switch (r.code) {
    case FIBER_OP_MUTEX_LOCK:
        return mutex_lock(in_place<Mutex>(static_cast<fiber_mutex_t*>(r.address)), caller, timeout_ns, true);
    case FIBER_OP_MUTEX_UNLOCK: return mutex_unlock(in_place<Mutex>(static_cast<fiber_mutex_t*>(r.address)), caller);
    case FIBER_OP_SEM_WAIT:
        if (r.number <= 0) return -EINVAL;
        return semaphore_wait(in_place<Semaphore>(static_cast<fiber_sem_t*>(r.address)), caller, uint64_t(r.number),
                              timeout_ns);
    case FIBER_OP_EVENT_WAIT:
        return event_wait(in_place<Event>(static_cast<fiber_event_t*>(r.address)), caller, timeout_ns);
    case FIBER_OP_WG_WAIT:
        return wait_group_wait(in_place<WaitGroup>(static_cast<fiber_wg_t*>(r.address)), caller, timeout_ns);
    case FIBER_OP_CHAN_SEND: return channel_transfer(r.target, true, r.address, timeout_ns);
    case FIBER_OP_CHAN_RECV: return channel_transfer(r.target, false, r.address, timeout_ns);
    default:
        return rwlock_lock(in_place<RwLock>(static_cast<fiber_rwlock_t*>(r.address)), caller, r.code == FIBER_OP_WRLOCK,
                           timeout_ns);
    }
}

// Of what the fiber's cancel does not end or refuse.
bool is_point(uint32_t code) {
    return code != FIBER_OP_NONE && code != FIBER_OP_CLOSE && code != FIBER_OP_MUTEX_UNLOCK;
}

} // namespace

int64_t fiberrt::api::begin_hosted_op(Cord& cord, Fiber* fiber, HostedOp& op) {
    fiber_op_t& r = record_of(op);
    int64_t timeout_ns = r.flags & FIBER_OP_TIMED ? r.timeout_ns : FIBER_FOREVER;
    if ((r.flags & ~FIBER_OP_TIMED) || r.reserved[0] || timeout_ns < 0) return -EINVAL;
    if (fiber->sched.attention && is_point(r.code)) return attend(cord, fiber);
    op.deadline = deadline_after(cord, timeout_ns);
    switch (r.code) {
    case FIBER_OP_NONE: return 0;
    case FIBER_OP_RESCHEDULE: return begin_reschedule(cord, fiber, op);
    case FIBER_OP_YIELD: return begin_yield(cord, fiber, op);
    case FIBER_OP_SLEEP: return begin_sleep(cord, fiber, op, r.number);
    case FIBER_OP_JOIN: return begin_join(cord, fiber, op, call_join);
    case FIBER_OP_READ:
    case FIBER_OP_WRITE: return bad_buffer(r) ? -EINVAL : read_or_write(cord, fiber, op, r.code == FIBER_OP_WRITE);
    case FIBER_OP_RECV: return bad_buffer(r) ? -EINVAL : message(cord, fiber, op, false, r.mode);
    case FIBER_OP_SEND: return bad_buffer(r) ? -EINVAL : message(cord, fiber, op, true, r.mode | MSG_NOSIGNAL);
    case FIBER_OP_ACCEPT: return accept_one(cord, fiber, op);
    case FIBER_OP_CONNECT:
        return r.address && r.length <= UINT32_MAX ? call_by_stack(cord, fiber, op, call_connect) : -EINVAL;
    case FIBER_OP_POLL: return poll_fd(cord, fiber, op);
    case FIBER_OP_CLOSE: return call_by_stack(cord, fiber, op, call_close, Stops::no);
    case FIBER_OP_MUTEX_LOCK:
    case FIBER_OP_MUTEX_UNLOCK:
    case FIBER_OP_SEM_WAIT:
    case FIBER_OP_EVENT_WAIT:
    case FIBER_OP_WG_WAIT:
    case FIBER_OP_CHAN_SEND:
    case FIBER_OP_CHAN_RECV:
    case FIBER_OP_RDLOCK:
    case FIBER_OP_WRLOCK: return wait_for(cord, r, timeout_ns);
    case FIBER_OP_CALL: return r.function ? call_by_stack(cord, fiber, op, call_function) : -EINVAL;
    default: return -EINVAL;
    }
}
