// SPDX-License-Identifier: MIT OR Apache-2.0
// DescriptorGuard: registers a call's use of a descriptor, and runs its operations by the backend, by calls or on the
// pool.
#include "io/descriptor_guard.h"

#include "base/keep_errno.h"
#include "base/planted.h"
#include "core/cancel.h"
#include "core/cord.h"
#include "core/scheduler.h"
#include "io/closing.h"
#include "io/io.h"
#include "io/offload_op.h"
#include "io/try_op.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fiberrt {

namespace {

// Like stop_op, but ignores an interrupt, which stays pending: the call has another reason to end already.
void stop_unless_interrupted(Wait* wait, int reason) { // coverage: race
    if (reason != -EINTR) stop_op(wait, reason);
}

} // namespace

DescriptorGuard::DescriptorGuard(Cord& cord, int fd, bool stackless) : cord_(cord), stackless_(stackless) {
    if (cord.sched.current->sched.pending) return; // run() will return it; nothing need be opened
    if (!cord.io) error_ = Io::open(cord);
    if (error_) return;
    Io& io = io_of(cord);
    if (fd == none) {
        descriptor_ = &io.unbound;
    } else {
        error_ = io.descriptor(fd, &descriptor_);
        if (error_) return;
        uses_of(cord, fd).fetch_add(1, std::memory_order_seq_cst);
        fd_ = fd;
        if (being_closed(fd)) {
            error_ = -EBADF;
            return;
        }
    }
    descriptor_->guards.push_back(this);
}

DescriptorGuard::DescriptorGuard(DescriptorGuard& first, int fd) : DescriptorGuard(first.cord_, fd) {
    other_ = &first;
    first.other_ = this;
}

DescriptorGuard::~DescriptorGuard() {
    if (other_) other_->other_ = nullptr;
    if (fd_ != none) {
        std::atomic<uint32_t>& uses = uses_of(cord_, fd_); // only this cord writes it
        uses.store(uses.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    }
    if (!linked()) return;
    unlink();
    if (!descriptor_->guards.empty()) return;
    if (descriptor_->closer) wake(descriptor_->closer, 0);
    if (CloseRequest* request = descriptor_->request) {
        descriptor_->request = nullptr;
        uses_ended(request);
    }
}

[[gnu::always_inline]] inline int64_t DescriptorGuard::done_at_once(int64_t result) {
    if (stackless_) {
        charge_call(cord_);
    } else {
        charge_and_poll(cord_);
    }
    return result;
}

inline void DescriptorGuard::note_result(const Op& op, int64_t result) {
    tried_by_call_ = true;
    if (op.code == OpCode::read || op.code == OpCode::recv) descriptor_->drained = result > 0 && result < op.length;
}

[[gnu::always_inline]] inline int64_t DescriptorGuard::note_try(const Op& op, int64_t result) {
    note_result(op, result);
    return done_at_once(result);
}

// Inlined into run(): two calls there would cost more than sharing this code with stackless fibers saves.
[[gnu::always_inline]] inline int64_t DescriptorGuard::begin_here(Op& op, bool reported_ready) {
    bool by_calls = backend_only_polls();
    if (!reported_ready || !by_calls) {
        if (int error = PLANTED(a_lost_cancel) && descriptor_ ? error_ : check())
            return reported_ready ? try_once_more(op, error) : error;
    }
    CordIo& io = *cord_.io;
    io.given++;
    if ((by_calls && op.code != OpCode::poll) || !(rings_have(op.code) || simulated())) return run_by_calls(op);
    if (by_calls && !op.hint) {
        int64_t result = io.backend->try_op(op);
        if (result != -EAGAIN) return done_at_once(result);
    }
    io.in_flight++;
    op.Wait::stop = stop_op;
    op.stop_reason = 0;
    op.on_deadline = -ETIMEDOUT;
    io.backend->give(io.state, &op);
    return op_given;
}

[[gnu::always_inline]] inline int64_t DescriptorGuard::go_on_here(Op& op, bool reported_ready, int64_t result) {
    bool by_calls = backend_only_polls();
    if (by_calls && op.finished) cord_.io->unconsumed--;
    if (result == op_again) return result;
    if (op.stop_reason && result == op.stop_reason) {
        if (op.seen && is_blocking_read(op)) return give_again(op, result);
        if (reported_ready) return try_once_more(op, result); // the backend had not begun it: not tried yet
    }
    if (result == op_no_thread) { // coverage: no memory
        if (stackless_) return op_blocking;
        result = run_here(op);
    }
    if (!by_calls && !simulated() && may_be_refusal(op, result)) result = run_by_calls(op);
    mark_filled(op, result);
    return result;
}

int64_t DescriptorGuard::run(Op& op, bool reported_ready, int64_t until) {
    for (;;) {
        int64_t result = begin_here(op, reported_ready);
        if (result == op_given) result = go_on_here(op, reported_ready, wait(op, until));
        if (result != op_again) return result;
    }
}

int64_t DescriptorGuard::begin(Op& op, bool reported_ready) { return begin_here(op, reported_ready); }

int64_t DescriptorGuard::go_on(Op& op, bool reported_ready, int64_t result) {
    return go_on_here(op, reported_ready, result);
}

int64_t DescriptorGuard::give_again(Op& op, int64_t error) {
    constexpr int64_t enough_ns = 100'000'000;
    CordIo& io = *cord_.io;
    io.in_flight++;
    op.stop_reason = 0;
    op.Wait::stop = stop_unless_interrupted;
    io.backend->give(io.state, &op);
    int64_t result = wait(op, deadline_after(cord_, enough_ns));
    if (result == op_no_thread || may_be_refusal(result)) return try_once_more(op, error);
    if (result < 0) return error;
    not_ended_by(int(error));
    mark_filled(op, result);
    return result;
}

int64_t DescriptorGuard::run_by_calls(Op& op) {
    int64_t result = try_op(op);
    if (result == op_blocking) {
        tried_by_call_ = true;
        if (stackless_) return op_blocking;
        OpJob job(cord_, op);
        if (waits_stop_the_pool(cord_) || !begin_elsewhere(cord_, op, job)) return run_here(op);
        result = wait(op);
        bool untried = op.stop_reason && result == op.stop_reason; // no thread of the pool had begun it
        bool looks = op.code == OpCode::splice || (is_blocking_read(op) && isatty(op.fd));
        return untried && looks ? try_once_more(op, result) : result;
    }
    if (result < 0 || op.code != OpCode::accept) return note_try(op, result);
    CordIo& io = *cord_.io;
    if (io.backend->closing) io.backend->closing(io.state, int(result)); // forgets the number's former file
    op.result = result; // for close_unclaimed(), in case the fiber never runs again after others' turns
    wait_ = &op;
    note_try(op, result);
    wait_ = nullptr;
    return result;
}

int64_t DescriptorGuard::run_by_calls_alone(Op& op, bool reported_ready) {
    if (int error = check()) return reported_ready ? try_once_more(op, error) : error;
    cord_.io->given++;
    return run_by_calls(op);
}

int64_t DescriptorGuard::try_once_more(const Op& op, int64_t error) {
    int64_t result = last_try(op);
    if (result == -EAGAIN) return error;
    CordIo& io = *cord_.io;
    if (result >= 0 && op.code == OpCode::accept && io.backend->closing) io.backend->closing(io.state, int(result));
    not_ended_by(int(error));
    note_result(op, result);
    return result;
}

int64_t DescriptorGuard::check_before_wait(const Op& op) {
    int error = PLANTED(a_lost_cancel) && descriptor_ ? error_ : check();
    return error ? try_once_more(op, error) : -EAGAIN;
}

int64_t DescriptorGuard::try_or_run(Op& op, bool reported_ready) {
    int64_t result = try_before_run(op, reported_ready);
    return result == op_given ? run(op, reported_ready) : result;
}

int64_t DescriptorGuard::try_before_run(Op& op, bool reported_ready) {
    if (simulated() || backend_only_polls()) return op_given;
    int error = reported_ready ? 0 : check();
    if (error) return error;
    int64_t result = try_op(op);
    return result == op_blocking ? op_given : has_tried(op, result);
}

int64_t DescriptorGuard::has_tried(const Op& op, int64_t result) {
    cord_.io->given++;
    return note_try(op, result);
}

bool DescriptorGuard::wait_first(const Op& op) const {
    if (op.code != OpCode::read && op.code != OpCode::recv) return false;
    bool waits = op.length && !(op.code == OpCode::recv && op.flags & MSG_OOB); // other reads do not take those bytes
    return waits && descriptor_ && descriptor_->drained;
}

int64_t DescriptorGuard::run_here(const Op& op) {
    bool writes = op.code == OpCode::write || op.code == OpCode::writev;
    // coverage: kernel
    if (op.may_block && writes) { // a terminal: waits at least until it accepts bytes
        int64_t answer = wait_until_ready(op.fd, POLLOUT, false);
        if (answer < 0) return answer;
    }
    io_begins();
    int64_t result = blocking_fallback(op);
    io_ends();
    return result;
}

void DescriptorGuard::not_ended_by(int error) {
    if (error == -EINTR) interrupt_given_back(cord_, cord_.sched.current);
}

int DescriptorGuard::check() {
    Fiber* me = cord_.sched.current;
    if (me->sched.pending && !ignores_pending_) return check_pending(cord_, me);
    return error_ || !other_ ? error_ : other_->error_;
}

void DescriptorGuard::stop(int reason) {
    Wait* wait = wait_ || !other_ ? wait_ : other_->wait_;
    if (wait && wait->fiber) wait->stop(wait, reason); // no fiber: the wait has ended already
}

void DescriptorGuard::close_unclaimed() {
    bool done = wait_ && wait_->what == WaitFor::op && !wait_->fiber;
    if (!done || wait_->result < 0) return;
    OpCode code = static_cast<Op*>(wait_)->code;
    if (code == OpCode::open || code == OpCode::open2 || code == OpCode::accept) ::close(int(wait_->result));
}

int64_t DescriptorGuard::wait(Wait& wait, int64_t deadline) {
    wait_ = &wait;
    int64_t result = park(cord_, wait, deadline);
    wait_ = nullptr;
    return result;
}

int64_t run_alone(Cord& cord, Op& op) {
    DescriptorGuard guard(cord, op.fd);
    return guard.run(op);
}

int Io::descriptor(int fd, Descriptor** out) {
    if (fd < 0) return -EBADF;
    if (fd >= descriptor_count) {
        KeepErrno keep;
        // Checked so that a number that is not open cannot make the table huge.
        if (fcntl(fd, F_GETFD) < 0) return -EBADF;
        int64_t count = descriptor_count ? descriptor_count : 64;
        while (count <= fd) count *= 2;
        auto** grown = static_cast<Descriptor**>(realloc(descriptors, size_t(count) * sizeof(void*)));
        if (!grown) return -ENOMEM;
        for (int64_t i = descriptor_count; i < count; i++) grown[i] = nullptr;
        descriptors = grown;
        descriptor_count = int(count > INT32_MAX ? INT32_MAX : count);
    }
    if (!descriptors[fd]) {
        KeepErrno keep;
        descriptors[fd] = make_by_malloc<Descriptor>();
        if (!descriptors[fd]) return -ENOMEM;
    }
    *out = descriptors[fd];
    return 0;
}

Descriptor* Io::used(int fd) const {
    Descriptor* descriptor = fd < descriptor_count ? descriptors[fd] : nullptr;
    return descriptor && !descriptor->guards.empty() ? descriptor : nullptr;
}

void Io::end_uses(Descriptor& descriptor) {
    for (DescriptorGuard* guard = descriptor.guards.front(); guard; guard = descriptor.guards.after(guard)) {
        guard->error_ = -EBADF;
        guard->stop(-EBADF);
    }
}

} // namespace fiberrt
