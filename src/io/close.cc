// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_close: ends every use of a descriptor on all cords, then closes it. Also the close of adopted libraries.
#include "io/close.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "core/scheduler.h"
#include "io/closing.h"
#include "io/io.h"
#include "io/offload_op.h"
#include "io/try_op.h"

#include <errno.h>
#include <unistd.h>

namespace fiberrt {

namespace {

int close_by_call(int fd) { // coverage: sanitizer
    KeepErrno keep;
    return close(fd) < 0 ? -errno : 0;
}

void end_uses_here(Cord& cord, int fd) {
    Descriptor* descriptor = cord.io ? io_of(cord).used(fd) : nullptr;
    if (!descriptor) return;
    Wait closer;
    closer.what = WaitFor::uses;
    descriptor->closer = &closer;
    Io::end_uses(*descriptor);
    park(cord, closer);
    descriptor->closer = nullptr;
}

// Ends this cord's uses of a descriptor at another cord's request. Runs on the cord that has the uses.
void end_uses_for_another(Cord& cord, Message* message) {
    auto* request = static_cast<CloseRequest*>(message);
    Descriptor* descriptor = cord.io ? io_of(cord).used(request->fd) : nullptr;
    if (!descriptor) return uses_ended(request);
    descriptor->request = request;
    Io::end_uses(*descriptor);
}

// Closes on a thread of the pool, also for a cord that has no I/O. Nothing ends the wait early.
void closed_elsewhere(Cord& cord, Message* message) {
    auto* job = static_cast<OpJob*>(message);
    cord.shared.count--;
    wake(cord, job->op, job->result);
}

int close_elsewhere(Cord& cord, Op& op) {
    if (waits_stop_the_pool(cord)) return int(blocking_fallback(op));
    OpJob job(cord, op);
    job.receive = closed_elsewhere;
    op.Wait::stop = nullptr;
    cord.shared.count++; // keeps this thread from ending before the message returns
    if (offload(job)) return int(park(cord, op));
    // coverage: no memory
    cord.shared.count--;
    return int(blocking_fallback(op));
}

// Closes by the cord's backend or on the pool. lingers: the close may wait for a socket's peer or a terminal; a ring
// would report the end of such a close before that wait, so the pool performs it.
int close_by_operation(Cord& cord, int fd, bool lingers) {
    Op op(OpCode::close, -1);
    op.offset = uint64_t(fd);
    if (!cord.io) return close_elsewhere(cord, op);
    CordIo& io = *cord.io;
    io.given++;
    if (io.backend->try_op || (lingers && !simulated())) return close_elsewhere(cord, op);
    io.in_flight++;
    io.backend->give(io.state, &op);
    int result = int(park(cord, op));
    if (result == op_no_thread) return close_by_call(fd);
    if (may_be_refusal(result)) return close_elsewhere(cord, op);
    return result == op_again ? -EINTR : result;
}

} // namespace

// Two things must happen at one moment, under one lock: the kernel closes the descriptor, and it leaves the list of
// descriptors that are being closed. If it left the list later, the next user of the number would be refused; if it
// left earlier, a fiber could begin a wait on a file that no number names any more. A descriptor whose close could take
// long first gets another number, except a regular file, on which no operation waits for ever.
int io_close(Cord& cord, int fd, EndsUsesOf whose) {
    if (cord.sched.current->sched.pending & pending_noswitch) return -EPERM;
    if (fd < 0) return -EBADF;
    Closing closing(cord, fd);
    if (!closing.is_only()) return -EBADF;
    end_uses_here(cord, fd);
    if (whose == EndsUsesOf::all_cords) end_uses_elsewhere(cord, fd, end_uses_for_another);
    if (cord.io && cord.io->backend->closing) cord.io->backend->closing(cord.io->state, fd);
    int64_t result = closing.close_at_once();
    if (result == op_blocking) {
        int64_t copy = closing.close_after_copy(&result);
        int number = int(copy);
        bool waits = whose == EndsUsesOf::all_cords || number != fd;
        bool by_operation = waits && !hooks::watches_descriptors();
        if (copy == op_blocking)
            charge_and_poll(cord); // coverage: uncounted
        else
            result = by_operation ? close_by_operation(cord, number, number != fd) : close_by_call(number);
    } else {
        charge_and_poll(cord);
    }
    return result == -EINTR ? 0 : int(result); // interrupted by a signal: Linux has closed it nevertheless
}

} // namespace fiberrt
