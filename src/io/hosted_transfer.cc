// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers of hosted fibers, in steps (hosted_transfer.h).
#include "io/hosted_transfer.h"

#include "core/cancel.h"
#include "core/cord.h"

namespace fiberrt {

namespace {

Op op_for(const HostedTransfer::What& what) {
    Op op(what.code, what.fd);
    op.address = what.address;
    op.address2 = what.address2;
    op.length = what.length;
    op.flags = unsigned(what.code == OpCode::poll ? what.events : what.flags);
    op.offset = uint64_t(own_position);
    return op;
}

} // namespace

int64_t HostedTransfer::begin(Cord& cord, Fiber* fiber, HostedOp& op, const What& what, ByStack by_stack) {
    op.go_on = go_on;
    static_assert(sizeof(HostedTransfer) <= sizeof op.storage);
    auto& it = *new (op.storage) HostedTransfer(cord, what, by_stack);
    return it.go(op_again, cord, fiber, op);
}

int64_t HostedTransfer::go_on(Cord& cord, Fiber* fiber, HostedOp& op) {
    auto& it = op.in<HostedTransfer>();
    it.guard_.waits_in(nullptr);
    return it.go(it.wait_ended(it.op_.result), cord, fiber, op);
}

// Goes on until the transfer waits or has ended. A call by a fiber with a stack then uses the same memory.
int64_t HostedTransfer::go(int64_t result, Cord& cord, Fiber* fiber, HostedOp& op) {
    while (result == op_again) result = try_now();
    if (result == hosted_waits) return result;
    ByStack by_stack = by_stack_;
    this->~HostedTransfer();
    if (result != op_blocking) return result;
    return fiber->sched.pending ? check_pending(cord, fiber) : by_stack(cord, fiber, op);
}

int64_t HostedTransfer::wait_ended(int64_t result) {
    switch (phase_) {
    case Phase::given: return tried(guard_.go_on(op_, retry_.waited(), result));
    case Phase::polling: return polled(guard_.go_on(op_, false, result));
    default: return paused(result == 0 ? guard_.check() : result); // a cancel or the like may have come meanwhile
    }
}

int64_t HostedTransfer::try_now() {
    if (what_.code == OpCode::poll) return begin_poll();
    new (&op_) Op(op_for(what_));
    bool reported_ready = retry_.waited();
    bool tries = reported_ready || what_.try_first || !what_.events || !guard_.wait_first(op_);
    if (!tries) return refused(false);
    int64_t result = what_.try_first ? guard_.try_before_run(op_, reported_ready) : op_given;
    if (result == op_given || result == -EAGAIN) result = guard_.begin(op_, reported_ready);
    return result == op_given ? wait(Phase::given, op_, deadline(), -ETIMEDOUT) : tried(result);
}

int64_t HostedTransfer::tried(int64_t result) {
    if (result >= 0 || result == op_again || result == op_blocking || what_.events == 0) return result;
    if (retry_.has_begun_to_connect(what_.code, result)) { // coverage: rare
        what_.flags &= ~MSG_FASTOPEN;
        result = -EAGAIN;
    }
    return result == -EAGAIN ? refused(true) : retry_.failed(op_for(what_), result);
}

int64_t HostedTransfer::refused(bool tried) {
    int64_t result;
    timed_ = false;
    switch (retry_.refused(guard_, op_for(what_), what_.events, tried, &result)) {
    case Retry::Next::ended: return result;
    case Retry::Next::pause: return begin_pause(retry_.pause_ns());
    case Retry::Next::timed_poll: timed_ = true; [[fallthrough]];
    case Retry::Next::poll: return begin_poll();
    }
    __builtin_unreachable();
}

Op HostedTransfer::poll() const { return poll_op(what_.fd, what_.events, retry_.hint()); }

int64_t HostedTransfer::begin_poll() {
    new (&op_) Op(poll());
    int64_t result = guard_.begin(op_, false);
    if (result != op_given) return polled(result);
    int64_t until = timed_ ? deadline_after(guard_.cord(), retry_.try_ns()) : never;
    if (until >= deadline()) timed_ = false;
    return wait(Phase::polling, op_, timed_ ? until : deadline(), -ETIMEDOUT);
}

// The poll has ended; result: as poll returns it.
int64_t HostedTransfer::polled(int64_t result) {
    if (timed_ && (result == -ETIMEDOUT || result == op_again)) return woken(guard_.check()); // 0: time to try again
    if (result == op_again) return begin_poll();
    polls_by_call_ = result == -EAGAIN;
    if (polls_by_call_) return begin_pause(timed_ ? retry_.try_ns() : retry_.pause_ns());
    if (result < 0 || what_.code != OpCode::poll) return woken(result);
    result = events_asked_for(guard_, what_.fd, what_.events, result);
    return result == -EAGAIN ? begin_pause(retry_.pause_ns()) : result;
}

// Waits a little, for a change that the kernel does not report.
int64_t HostedTransfer::begin_pause(int64_t duration_ns) {
    if (int error = guard_.check()) return paused(error);
    int64_t until = deadline_after(guard_.cord(), duration_ns);
    Wait& pause = *new (&op_) Op(OpCode::poll, what_.fd);
    pause.what = WaitFor::time;
    pause.stop = stop_at_once;
    bool in_time = until <= deadline();
    return wait(Phase::pausing, pause, in_time ? until : deadline(), in_time ? 0 : -ETIMEDOUT);
}

// The pause has ended. error: why it ended early; 0: it did not.
int64_t HostedTransfer::paused(int64_t error) {
    bool looks = polls_by_call_ && !timed_;
    polls_by_call_ = false;
    if (!looks && what_.code != OpCode::poll) return woken(error);
    if (error) return woken(guard_.try_once_more(poll(), error));
    if (!looks) return op_again;
    new (&op_) Op(poll());
    return polled(guard_.run_by_calls(op_));
}

// Decides, after the wait between two tries, whether to try again.
int64_t HostedTransfer::woken(int64_t result) {
    bool tries = what_.code == OpCode::poll ? false : retry_.woken(guard_, op_for(what_), &result);
    return tries ? op_again : result;
}

int64_t HostedTransfer::wait(Phase phase, Wait& wait, int64_t deadline, int on_deadline) {
    phase_ = phase;
    wait.on_deadline = on_deadline;
    guard_.waits_in(&wait);
    Cord& cord = guard_.cord();
    return hosted_park(cord, cord.sched.current, wait, deadline);
}

} // namespace fiberrt
