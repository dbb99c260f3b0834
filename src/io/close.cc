// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_close: ends what is under way on a descriptor, then closes it.
#include "io/close.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "core/relay.h"
#include "io/attempt.h"
#include "io/closing.h"
#include "io/io.h"
#include "io/offload_op.h"

#include <errno.h>
#include <unistd.h>

namespace fiberrt {

namespace {

int plain_close(int fd) { // coverage: sanitizer
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

// A cord is asked by another to end its uses.
void end_uses_for_another(Cord& cord, Message* message) {
    auto* request = static_cast<CloseRequest*>(message);
    Descriptor* descriptor = cord.io ? io_of(cord).used(request->fd) : nullptr;
    if (!descriptor) return uses_ended(request);
    descriptor->request = request;
    Io::end_uses(*descriptor);
}

// On a thread of the pool, also of a cord that has no I/O. Nothing ends it early.
void closed_elsewhere(Cord& cord, Message* message) {
    auto* job = static_cast<OpJob*>(message);
    cord.shared.count--;
    wake(cord, job->op, job->result);
}

int close_elsewhere(Cord& cord, Op& op) {
    if (waits_stop_the_pool(cord)) return int(plain_call(op));
    OpJob job(cord, op);
    job.receive = closed_elsewhere;
    op.Wait::stop = nullptr;
    cord.shared.count++; // so that the thread does not end before it has come home
    if (offload(job)) return int(park(cord, op));
    // coverage: no memory
    cord.shared.count--;
    return int(plain_call(op));
}

// lingers: closing it may wait for as long as a socket's peer takes, or a terminal. A ring would report the end of such
// a close before the wait.
int close_by_operation(Cord& cord, int fd, bool lingers) {
    Op op(OpCode::close, -1);
    op.offset = uint64_t(fd);
    if (!cord.io) return close_elsewhere(cord, op);
    CordIo& io = *cord.io;
    io.given++;
    if (io.backend->attempt || (lingers && !simulated())) return close_elsewhere(cord, op);
    io.in_flight++;
    io.backend->give(io.state, &op);
    int result = int(park(cord, op));
    if (result == op_no_thread) return plain_close(fd);
    if (may_be_refusal(result)) return close_elsewhere(cord, op);
    return result == op_again ? -EINTR : result;
}

} // namespace

// Once the kernel has closed the descriptor, it must not be listed as being closed any more: the next user of the
// number would be refused. Nor may it be unlisted before: a fiber that begins to use it in between would wait on a file
// that no number names any more. So both happen under one lock. A descriptor that could take long to close is first
// given another number, unless it is a regular file, on which nothing waits for ever.
int io_close(Cord& cord, int fd) {
    if (cord.sched.current->sched.attention & attention_noswitch) return -EPERM;
    if (fd < 0) return -EBADF;
    Closing closing(cord, fd);
    if (!closing.alone()) return -EBADF;
    end_uses_here(cord, fd);
    end_uses_elsewhere(cord, fd, end_uses_for_another);
    if (cord.io && cord.io->backend->closing) cord.io->backend->closing(cord.io->state, fd);
    int64_t result = closing.close_at_once();
    if (result == op_blocking) {
        int64_t copy = closing.close_but_a_copy(&result);
        int number = int(copy);
        bool by_operation = !hooks::watches_descriptors();
        if (copy == op_blocking)
            turn_taken(cord); // coverage: uncounted
        else
            result = by_operation ? close_by_operation(cord, number, number != fd) : plain_close(number);
    } else {
        turn_taken(cord);
    }
    return result == -EINTR ? 0 : int(result); // a signal: Linux has closed it all the same
}

} // namespace fiberrt
