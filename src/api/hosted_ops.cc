// SPDX-License-Identifier: MIT OR Apache-2.0
// The operations of stackless fibers (FIBER_OP_...): checks the operation's record, and begins it. Each does the same
// as the call of the same name; the fiber begins it, and it continues at later turns.
#include "api/hosted_ops.h"

#include "api/api.h"
#include "api/in_place.h"
#include "io/hosted_calls.h"
#include "stackless/call.h"
#include "stackless/operations.h"
#include "sync/channel.h"
#include "sync/event.h"
#include "sync/mutex.h"
#include "sync/rwlock.h"
#include "sync/semaphore.h"
#include "sync/wait_group.h"

#include <limits.h>
#include <sys/socket.h>

using namespace fiberrt;
using api::in_place;

namespace {

int64_t call_join(fiber_op_t& r) { return fiber_join({r.target}, &r.value); }

int64_t call_function(fiber_op_t& r) { return r.function(r.address); }

bool bad_bytes(const fiber_op_t& r) { return api::bad_buffer(r.address, r.length); }

bool bad_accept(const fiber_op_t& r) {
    return (r.address && !r.address2) || (r.mode & ~(SOCK_NONBLOCK | SOCK_CLOEXEC));
}

// Begins an operation on a primitive in the user's memory, or on a channel.
int64_t wait_for_object(Cord& cord, const fiber_op_t& r, int64_t timeout_ns) { // coverage: names
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

// Whether a pending cancel, interrupt or deadline of the fiber refuses this operation.
bool is_point(uint32_t code) {
    return code != FIBER_OP_NONE && code != FIBER_OP_CLOSE && code != FIBER_OP_MUTEX_UNLOCK;
}

} // namespace

int64_t fiberrt::api::begin_hosted_op(Cord& cord, Fiber* fiber, HostedOp& op) {
    fiber_op_t& r = record_of(op);
    int64_t timeout_ns = r.flags & FIBER_OP_TIMED ? r.timeout_ns : FIBER_FOREVER;
    if ((r.flags & ~(FIBER_OP_TIMED | FIBER_OP_REASON)) || r.reserved[0] || timeout_ns < 0) return -EINVAL;
    if (r.flags & FIBER_OP_REASON && (r.code != FIBER_OP_YIELD || !r.address)) return -EINVAL;
    if (fiber->sched.pending && is_point(r.code)) return check_pending(cord, fiber);
    op.deadline = deadline_after(cord, timeout_ns);
    switch (r.code) {
    case FIBER_OP_NONE: return 0;
    case FIBER_OP_RESCHEDULE: return begin_reschedule(cord, fiber, op);
    case FIBER_OP_YIELD: return begin_yield(cord, fiber, op);
    case FIBER_OP_SLEEP: return begin_sleep(cord, fiber, op, r.number);
    case FIBER_OP_JOIN: return begin_join(cord, fiber, op, call_join);
    case FIBER_OP_READ: return bad_bytes(r) ? -EINVAL : begin_read(cord, fiber, op);
    case FIBER_OP_WRITE: return bad_bytes(r) ? -EINVAL : begin_write(cord, fiber, op);
    case FIBER_OP_RECV: return bad_bytes(r) ? -EINVAL : begin_recv(cord, fiber, op);
    case FIBER_OP_SEND: return bad_bytes(r) ? -EINVAL : begin_send(cord, fiber, op);
    case FIBER_OP_ACCEPT: return bad_accept(r) ? -EINVAL : begin_accept(cord, fiber, op);
    case FIBER_OP_CONNECT: return r.address && r.length <= UINT32_MAX ? begin_connect(cord, fiber, op) : -EINVAL;
    case FIBER_OP_POLL: return r.mode > 0 && r.mode <= 0xffff ? begin_poll(cord, fiber, op) : -EINVAL;
    case FIBER_OP_CLOSE: return begin_close(cord, fiber, op);
    case FIBER_OP_MUTEX_LOCK:
    case FIBER_OP_MUTEX_UNLOCK:
    case FIBER_OP_SEM_WAIT:
    case FIBER_OP_EVENT_WAIT:
    case FIBER_OP_WG_WAIT:
    case FIBER_OP_CHAN_SEND:
    case FIBER_OP_CHAN_RECV:
    case FIBER_OP_RDLOCK:
    case FIBER_OP_WRLOCK: return wait_for_object(cord, r, timeout_ns);
    case FIBER_OP_CALL: return r.function ? call_by_stack(cord, fiber, op, call_function) : -EINVAL;
    default: return -EINVAL;
    }
}
