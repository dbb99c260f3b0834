// SPDX-License-Identifier: MIT OR Apache-2.0
// One call's use of a descriptor, from its first operation to its last.
#pragma once

#include "base/list.h"
#include "core/cord.h"
#include "core/backend.h"
#include "io/op.h"

#include <limits.h>
#include <stdint.h>

namespace fiberrt {

struct Descriptor;

// begin(): the backend has the operation.
constexpr int64_t op_given = INT64_MIN + 1;

// One call's use of a descriptor, from its first operation to its last. fiber_close ends every use of its descriptor
// before it closes: so no step of a call meets another file under the same number.
class DescriptorUse : public Link {
public:
    static constexpr int none = INT_MIN; // operations on no descriptor

    // Opens the cord's backend if it must.
    // stackless: of a fiber without a stack, which cannot park: it runs operations by begin() and go_on() alone.
    DescriptorUse(Cord& cord, int fd, bool stackless = false);
    // The use of the second descriptor of the same call. A close of either descriptor ends the call's operation. The
    // first use runs the operations.
    DescriptorUse(DescriptorUse& first, int fd);
    ~DescriptorUse();
    DescriptorUse(const DescriptorUse&) = delete;
    DescriptorUse& operator=(const DescriptorUse&) = delete;

    // Runs one operation and parks the current fiber until it is done. Before it starts, it returns the pending cancel,
    // interrupt or timeout of the fiber (attend), or the error of the use: -ENOTSUP, -ENOMEM, -EBADF, …
    // told_ready: the descriptor was reported ready. Then the operation is tried first, even if the fiber has been
    // cancelled or the descriptor's close has begun since. until: a deadline of this operation only; it too ends the
    // wait with -ETIMEDOUT.
    int64_t run(Op& op, bool told_ready = false, int64_t until = INT64_MAX);
    // run() in two steps, with the fiber's wait in the operation between them. begin() tries the operation, or gives it
    // to the backend: its result, or op_given. go_on(), after that wait has ended with `result`: the operation's
    // result; or op_again: it is to be begun anew. Both, of a stackless fiber: op_blocking, if the thread would have to
    // wait.
    int64_t begin(Op& op, bool told_ready);
    int64_t go_on(Op& op, bool told_ready, int64_t result);
    int check(); // the error that run() would return before it starts the operation; 0: none
    // As run(), for operations that a ring gives to a thread even if they need not wait: first attempts them here.
    int64_t attempt_or_run(Op& op, bool told_ready = false);
    // That attempt; op_given: the operation is still to be run.
    int64_t attempt_first(Op& op, bool told_ready);
    int64_t run_by_calls(Op& op); // at once or on another thread; -EAGAIN if it must wait for readiness
    // Runs one operation by calls even where there is a ring: for reads that end by other rules than the ring's.
    int64_t run_by_calls_alone(Op& op, bool told_ready);
    // From now on operations run even if the fiber has a pending cancel, interrupt or timeout. The caller uses it for
    // operations that end by themselves.
    void insist() { insists_ = true; }
    // The call's wait has ended early with `error`, after the operation was tried: tries it once more. Its result; or
    // `error`, if it would still have to wait.
    int64_t look_once_more(const Op& op, int64_t error);
    // The operation was refused with -EAGAIN, and the call is about to wait. -EAGAIN: it may. Otherwise its result: the
    // fiber was cancelled or the like since, and look_once_more() tells whether the operation could be done by then.
    int64_t check_before_wait(const Op& op);
    // Use instead of run() when the caller has already tried the operation. Returns result.
    int64_t has_attempted(const Op& op, int64_t result);

    // Waits until the descriptor is ready for events. hint: the caller tries again anyway. What poll would return, or <
    // 0.
    int64_t wait_until_ready(int fd, int events, bool hint, int64_t until = INT64_MAX);
    // Returns the events that hold now, of those that a wait without `hint` has reported. io_uring reports the events
    // that the kernel names when it wakes a waiter, and does not ask the descriptor: a terminal names POLLIN before it
    // has VMIN bytes, and POLLOUT after each refused write, a socket names POLLPRI with any bytes. So this asks by
    // poll(2).
    int events_that_hold(int fd, int events, int told) const;
    // Waits until the descriptor is ready, or for most_ns. Returns `events` in both cases: the caller tries again
    // anyway.
    int64_t wait_to_try_again(int fd, int events, int64_t most_ns);
    // Whether to wait for readiness before the operation is tried: the last one like it took all that was there.
    bool wait_first(const Op& op) const;
    int pause(int64_t duration_ns); // 0, or why it ended early
    int64_t deadline_in(int64_t duration_ns) const;
    // The call has a result although `error` ended one of its waits early: an interrupt stays pending for the next
    // call.
    void not_ended_by(int error);
    // The fiber, which has no stack, waits in `wait` between begin() and go_on(), so that stop() finds it; null: no more.
    void waits_in(Wait* wait) { wait_ = wait; }
    Cord& cord() const { return cord_; }
    // Whether operations are not given to the backend.
    bool by_attempts() const { return cord_.io && cord_.io->backend->attempt; }
    // Whether an operation of this use was performed by a call, which does not wait as a ring does (MSG_WAITALL).
    bool attempted() const { return attempted_ || simulated(); }

private:
    friend struct Io;
    friend class PositionTurn;
    int64_t begin_here(Op& op, bool told_ready);
    int64_t go_on_here(Op& op, bool told_ready, int64_t result);
    void stop(int reason);          // ends what it waits for, if it does
    void close_unclaimed();         // its fiber never runs again: a descriptor that the operation has made for it
    int64_t run_here(const Op& op); // by a plain system call, for want of a thread of the kernel's
    void note_result(const Op& op, int64_t result);
    int64_t done_at_once(int64_t result); // counts as a turn: others have theirs in time
    int64_t note_attempt(const Op& op, int64_t result);
    // The ring has not begun a read of a terminal that was stopped when there were bytes: it is to read them now,
    // unless another reader has taken them. Its result; or `error`.
    int64_t give_once_more(Op& op, int64_t error);
    int64_t wait(Wait& wait, int64_t deadline = never); // parks, so that stop() finds it

    Cord& cord_;
    int fd_ = none; // once it is counted
    struct Descriptor* descriptor_ = nullptr;
    DescriptorUse* other_ = nullptr; // of the same call
    Wait* wait_ = nullptr;           // an operation that the backend has, or a turn
    bool attempted_ = false;
    bool insists_ = false;
    const bool stackless_;
    int error_ = 0; // why no operation may begin
};

// Runs the only operation of a call.
int64_t run_alone(Cord& cord, Op& op);

} // namespace fiberrt
