// SPDX-License-Identifier: MIT OR Apache-2.0
// DescriptorGuard: how a call such as fiber_read uses a descriptor and runs its operations.
#pragma once

#include "base/list.h"
#include "core/cord.h"
#include "core/backend.h"
#include "io/op.h"

#include <limits.h>
#include <stdint.h>

namespace fiberrt {

struct Descriptor;

// Result of begin(): the backend has the operation.
constexpr int64_t op_given = INT64_MIN + 1;

// How long a fiber pauses before it checks again for an event that the kernel does not report: first_pause_ns, then
// twice as long each time, up to longest_pause_ns.
constexpr int64_t first_pause_ns = 1'000'000;
constexpr int64_t longest_pause_ns = 16'000'000;

// One call's use of a descriptor, from the call's first operation to its last. fiber_close ends every use of the
// descriptor before it closes: so all operations of a call work on the same file.
class DescriptorGuard : public Link {
public:
    static constexpr int none = INT_MIN; // operations on no descriptor

    // Opens the cord's backend if it is not open yet.
    // stackless: the call is one of a fiber without a stack, which cannot park. It runs operations by begin() and
    // go_on() only.
    DescriptorGuard(Cord& cord, int fd, bool stackless = false);
    // The use of a second descriptor by the same call. A close of either descriptor ends the call's operation. The
    // first use runs the operations.
    DescriptorGuard(DescriptorGuard& first, int fd);
    ~DescriptorGuard();
    DescriptorGuard(const DescriptorGuard&) = delete;
    DescriptorGuard& operator=(const DescriptorGuard&) = delete;

    // Runs one operation and parks the current fiber until it is done. Before that, it returns the fiber's pending
    // cancel, interrupt or timeout (check_pending), or the error of the use: -ENOTSUP, -ENOMEM, -EBADF, …
    // reported_ready: the descriptor was reported ready. Then the operation is tried first, even if a cancel or a close
    // of the descriptor has come since. until: a deadline of this operation only; it too ends the wait with -ETIMEDOUT.
    int64_t run(Op& op, bool reported_ready = false, int64_t until = INT64_MAX);
    // run() in two steps, for a caller that waits in the operation between them. begin() tries the operation, or gives
    // it to the backend: returns the result, or op_given. When that wait has ended with `result`, go_on() returns the
    // operation's result, or op_again: the caller must begin it again. For a stackless fiber both return op_blocking if
    // the thread would have to wait.
    int64_t begin(Op& op, bool reported_ready);
    int64_t go_on(Op& op, bool reported_ready, int64_t result);
    int check(); // the error that run() would return before it starts the operation; 0: none
    // Like run(), but first tries the operation by a call on this thread: for operations that a ring gives to a worker
    // thread even if they need not wait.
    int64_t try_or_run(Op& op, bool reported_ready = false);
    // Only the first try of try_or_run(); op_given: run() must run the operation.
    int64_t try_before_run(Op& op, bool reported_ready);
    int64_t run_by_calls(Op& op); // by a call here or on a thread of the pool; -EAGAIN if it must wait for readiness
    // Runs one operation by calls even with a ring: for reads that end by other rules than the ring's.
    int64_t run_by_calls_alone(Op& op, bool reported_ready);
    // Lets operations run even if the fiber has a pending cancel, interrupt or timeout. The caller uses it for
    // operations that end by themselves.
    void ignore_pending() { ignores_pending_ = true; }
    // Tries the operation once more, after the call's wait has ended early with `error`. Returns the operation's
    // result, or `error` if it would still have to wait.
    int64_t try_once_more(const Op& op, int64_t error);
    // Checks, before the call waits for an operation that was refused with -EAGAIN, whether the fiber was cancelled or
    // the like since. -EAGAIN: the call may wait. Otherwise the call's result, from try_once_more().
    int64_t check_before_wait(const Op& op);
    // Use instead of run() when the caller has already tried the operation. Returns result.
    int64_t has_tried(const Op& op, int64_t result);

    // Waits until the descriptor is ready for events. Returns the events as poll(2) does, or < 0. hint: the caller
    // tries again anyway (Op::hint).
    int64_t wait_until_ready(int fd, int events, bool hint, int64_t until = INT64_MAX);
    // Returns which of the events hold now. reported: the result of a wait without `hint`. io_uring reports the
    // events that the kernel names when it wakes a waiter, and does not ask the descriptor. Such reports may be wrong:
    // a terminal names POLLIN before it has VMIN bytes, and POLLOUT after each refused write; a socket names POLLPRI
    // with any bytes. So this calls poll(2).
    int events_that_hold(int fd, int events, int reported) const;
    // Waits until the descriptor is ready, or for most_ns. Returns `events` in both cases, because the caller tries
    // again anyway.
    int64_t wait_to_try_again(int fd, int events, int64_t most_ns);
    // Whether to wait for readiness before the first try: the last read or recv got less than it asked for, so nothing
    // is left.
    bool wait_first(const Op& op) const;
    int pause(int64_t duration_ns); // returns 0, or why it ended early
    int64_t deadline_in(int64_t duration_ns) const;
    // Tells that the call has a result although `error` ended one of its waits early: a pending interrupt stays pending
    // for the next call.
    void not_ended_by(int error);
    // Sets the Wait in which a fiber without a stack waits between begin() and go_on(), so that stop() finds it; null:
    // none.
    void waits_in(Wait* wait) { wait_ = wait; }
    Cord& cord() const { return cord_; }
    // Whether the backend performs polls only (libev): calls on this thread or the pool perform other operations.
    bool backend_only_polls() const { return cord_.io && cord_.io->backend->try_op; }
    // Whether a call performed an operation of this use. Unlike a ring, a call does not wait (MSG_WAITALL).
    bool tried_by_call() const { return tried_by_call_ || simulated(); }

private:
    friend struct Io;
    friend class PositionLock;
    int64_t begin_here(Op& op, bool reported_ready);
    int64_t go_on_here(Op& op, bool reported_ready, int64_t result);
    void stop(int reason);          // ends its wait, if it waits
    void close_unclaimed();         // closes a descriptor made by its operation, as its fiber never runs again
    int64_t run_here(const Op& op); // by a plain call: the kernel could make no thread
    void note_result(const Op& op, int64_t result);
    int64_t done_at_once(int64_t result); // counts a turn, so that other fibers run too
    int64_t note_try(const Op& op, int64_t result);
    // Reads the bytes of a terminal whose read was stopped before the ring began it. Returns the read's result, or
    // `error` if another reader has taken the bytes.
    int64_t give_again(Op& op, int64_t error);
    int64_t wait(Wait& wait, int64_t deadline = never); // parks, so that stop() finds it

    Cord& cord_;
    int fd_ = none; // none until the use is counted
    struct Descriptor* descriptor_ = nullptr;
    DescriptorGuard* other_ = nullptr; // the other descriptor's use in the same call
    Wait* wait_ = nullptr;             // an operation that the backend has, or a position lock
    bool tried_by_call_ = false;
    bool ignores_pending_ = false;
    const bool stackless_;
    int error_ = 0; // why no operation may begin
};

// Runs an operation that is the only one of its call.
int64_t run_alone(Cord& cord, Op& op);

} // namespace fiberrt
