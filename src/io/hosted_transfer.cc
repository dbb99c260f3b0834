// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers of hosted fibers.
#include "io/hosted_transfer.h"

#include "base/keep_errno.h"
#include "core/cancel.h"
#include "core/cord.h"
#include "io/sockets.h"

#include <poll.h>

namespace fiberrt {

namespace {

constexpr int64_t first_pause_ns = 1'000'000;
constexpr unsigned most_doublings = 4;

// The events that there are now, or -EAGAIN.
int64_t ready_now(int fd, int events) {
    int now = events_now(fd, events);
    return now & POLLNVAL ? -EBADF : now ? now : -EAGAIN;
}

Op op_for(const HostedTransfer::What& what) {
    Op op(what.code, what.fd);
    op.address = what.address;
    op.address2 = what.address2;
    op.length = what.length;
    op.flags = unsigned(what.code == OpCode::poll ? what.events : what.flags);
    op.offset = ~uint64_t(0);
    return op;
}

} // namespace

int64_t HostedTransfer::begin(Cord& cord, Fiber* fiber, HostedOp& op, const What& what, ByStack by_stack) {
    op.go_on = go_on;
    static_assert(sizeof(HostedTransfer) <= sizeof op.storage);
    auto& it = *new (op.storage) HostedTransfer(cord, what, by_stack);
    return it.ended(it.go(0), cord, fiber, op);
}

int64_t HostedTransfer::go_on(Cord& cord, Fiber* fiber, HostedOp& op) {
    auto& it = op.in<HostedTransfer>();
    it.use_.wait_ = nullptr;
    return it.ended(it.go(it.op_.result), cord, fiber, op);
}

// Unless it waits. What then begins by a stack does so in the same memory.
int64_t HostedTransfer::ended(int64_t result, Cord& cord, Fiber* fiber, HostedOp& op) {
    if (result == hosted_waits) return result;
    ByStack by_stack = by_stack_;
    this->~HostedTransfer();
    if (result != needs_stack) return result;
    return fiber->attention ? attend(cord, fiber) : by_stack(cord, fiber, op);
}

// result: of the wait that has ended, if there was one.
int64_t HostedTransfer::go(int64_t result) {
    for (;;) {
        bool tried = true;
        switch (phase_) {
        case Phase::trying:
            if (what_.code == OpCode::poll) {
                result = begin_poll(false);
                return result == -EAGAIN ? begin_pause() : result;
            }
            tried = waited_ || what_.try_first || !use_.wait_first(op_for(what_));
            result = tried ? try_now() : -EAGAIN;
            if (result == hosted_waits) return result;
            break;
        case Phase::given:
            if (result == op_again) {
                phase_ = Phase::trying;
                continue;
            }
            // A stopped operation that the backend had not begun was not tried.
            if (waited_ && op_.stop_reason && result == op_.stop_reason) {
                return use_.look_once_more(op_for(what_), result);
            }
            if (result == op_no_thread) return needs_stack;
            if (!simulated() && may_be_refusal(op_, result)) result = attempt_now();
            mark_filled(op_, result);
            break;
        case Phase::polling:
            result = after_poll(result);
            if (result == -EAGAIN) return begin_pause();
            if (result < 0 && tries_again_) return use_.look_once_more(op_for(what_), result);
            if (result < 0 || what_.code == OpCode::poll) return result;
            phase_ = Phase::trying;
            continue;
        case Phase::pausing:
            if (result == 0) result = use_.check(); // a cancel or the like may have come at the same moment
            if (result < 0) return ended_early(result);
            if (looks_ && !ready()) return begin_pause();
            looks_ = false;
            phase_ = Phase::trying;
            continue;
        }
        if (what_.events == 0) return result;
        if (result == -EPIPE && waited_) return result_when_broken(what_.fd);
        if (result == -EINPROGRESS && what_.code == OpCode::send) { // the first of a connection, which it has begun
            what_.flags &= ~MSG_FASTOPEN;
            result = -EAGAIN;
        }
        if (result != -EAGAIN) return result;
        phase_ = Phase::trying;
        if (tried) {
            result = use_.check_before_wait(op_for(what_));
            if (result != -EAGAIN) return result;
        }
        if (waited_) {
            int now = events_now(what_.fd, what_.events | POLLRDHUP);
            if (now & POLLRDHUP && what_.events == POLLIN) {
                result =
                    use_.look_once_more(op_for(what_), -EAGAIN); // the data that came before the shutdown, or the end
                if (result != -EAGAIN) return result;
            }
            if (now & ~POLLRDHUP) return begin_pause(); // told of readiness that was none
        }
        bool hint = !waited_;
        waited_ = true;
        bool retries = what_.code == OpCode::send && must_retry_send(what_.fd);
        tries_again_ = retries && !simulated(); // the simulation tells of a shutdown
        result = begin_poll(hint || retries);
        if (result < 0) return result; // hosted_waits included
    }
}

int64_t HostedTransfer::try_now() {
    bool by_calls = use_.by_attempts();
    if (!waited_ || !by_calls) {
        if (int error = use_.check()) return waited_ ? use_.look_once_more(op_for(what_), error) : error;
    }
    new (&op_) Op(op_for(what_));
    use_.cord_.io->given++;
    if (by_calls) return attempt_now();
    if (what_.try_first && !waited_ && !simulated()) {
        int64_t result = attempt_now();
        if (result != needs_stack && result != -EAGAIN) return result;
    }
    return give(Phase::given);
}

int64_t HostedTransfer::attempt_now() {
    int64_t result = attempt(op_);
    if (result == op_blocking) return needs_stack;
    CordIo& io = *use_.cord_.io;
    if (result >= 0 && op_.code == OpCode::accept && io.backend->closing) {
        io.backend->closing(io.state, int(result)); // whatever had the number before
    }
    use_.note_result(op_, result);
    turn_counted(use_.cord_);
    return result;
}

// Readiness is waited for; or it is there: what poll would return.
int64_t HostedTransfer::begin_poll(bool hint) {
    if (int error = use_.check()) return error;
    CordIo& io = *use_.cord_.io;
    new (&op_) Op(OpCode::poll, what_.fd);
    op_.flags = unsigned(what_.events);
    op_.hint = hint;
    io.given++;
    if (use_.by_attempts() && !hint) {
        int64_t result = io.backend->attempt(op_);
        if (result != -EAGAIN) {
            turn_counted(use_.cord_);
            return result < 0 ? result : after_poll(result);
        }
    }
    return give(Phase::polling);
}

// The events that are told; -EAGAIN: none that were asked for. A ring that refuses even this: looks for itself.
int64_t HostedTransfer::after_poll(int64_t result) {
    if (phase_ == Phase::polling && use_.by_attempts() && op_.finished) use_.cord_.io->told--;
    if (result == op_again) return -EAGAIN;
    if (result == -ETIMEDOUT && tries_again_) {
        if (int error = use_.check()) return error;
        if (clock_now() < hosted().deadline) return -EAGAIN;
    }
    if (result == op_no_thread || (!simulated() && may_be_refusal(result))) {
        result = ready_now(what_.fd, what_.events);
        looks_ = result == -EAGAIN && !tries_again_;
    }
    if (result < 0 || what_.code != OpCode::poll) return result;
    // The kernel tells of POLLRDHUP unasked, at once and every time.
    int asked_for = int(result) & (what_.events | POLLERR | POLLHUP);
    if (asked_for) asked_for = use_.events_that_hold(what_.fd, what_.events, asked_for);
    return asked_for ? asked_for : -EAGAIN;
}

int64_t HostedTransfer::give(Phase phase) {
    phase_ = phase;
    CordIo& io = *use_.cord_.io;
    io.in_flight++;
    op_.Wait::stop = stop_op;
    io.backend->give(io.state, &op_);
    int64_t deadline = hosted().deadline;
    if (phase == Phase::polling && tries_again_) {
        int64_t next_try = deadline_after(use_.cord_, first_send_pause_ns << tries_);
        if (first_send_pause_ns << tries_ < longest_send_pause_ns) tries_++;
        if (next_try < deadline) deadline = next_try;
    }
    return wait(op_, deadline, -ETIMEDOUT);
}

// For what the kernel gives no notice of: waits a little, longer each time.
int64_t HostedTransfer::begin_pause() {
    if (int error = use_.check()) return ended_early(error);
    int64_t until = deadline_after(use_.cord_, first_pause_ns << pauses_);
    if (pauses_ < most_doublings) pauses_++;
    phase_ = Phase::pausing;
    Wait& pause = *new (&op_) Op(OpCode::poll, what_.fd);
    pause.what = WaitFor::time;
    pause.stop = stop_at_once;
    int64_t deadline = hosted().deadline;
    return deadline < until ? wait(pause, deadline, -ETIMEDOUT) : wait(pause, until, 0);
}

bool HostedTransfer::ready() const { return ready_now(what_.fd, what_.events) != -EAGAIN; }

// While it looks for readiness, an attempt is not due before that has come.
int64_t HostedTransfer::ended_early(int64_t error) {
    return looks_ && !ready() ? error : use_.look_once_more(op_for(what_), error);
}

int64_t HostedTransfer::wait(Wait& wait, int64_t deadline, int on_deadline) {
    wait.on_deadline = on_deadline;
    use_.wait_ = &wait;
    Cord& cord = use_.cord_;
    return hosted_park(cord, cord.current, wait, deadline);
}

HostedOp& HostedTransfer::hosted() { return *use_.cord_.current->op; }

} // namespace fiberrt
