// SPDX-License-Identifier: MIT OR Apache-2.0
// A transfer of a fiber without a stack: until_ready() of io/ready.h, in steps.
//
// The two share DescriptorGuard::begin() and go_on(), and the decisions of Retry. Where until_ready() parks, this
// returns hosted_waits, and the end of the wait calls the next step.
//
//   trying ── done at once, or refused ──▶ its result
//     ├────▶ given      the backend has it ──▶ its result
//     └ -EAGAIN: wait for readiness (polling), then try again; if refused again, after a pause (pausing).
//                A ring may refuse polls: then check the readiness after each pause.
//
// Only for descriptors that have no position and cannot block the thread. If one turns out to be of that kind, a fiber
// with a stack makes the call.
#pragma once

#include "stackless/hosted.h"
#include "io/try_op.h"
#include "io/descriptor_guard.h"
#include "io/ready.h"

namespace fiberrt {

class HostedTransfer {
public:
    struct What {
        OpCode code; // read, write, recv, send, accept, poll
        int fd;
        int flags;
        int events; // the events to wait for
        void* address;
        void* address2;
        uint32_t length;
        bool try_first = false; // the operation may end even if nothing is ready
    };

    // Begins an operation again, as a call of a fiber with a stack.
    using ByStack = int64_t (*)(Cord& cord, Fiber* fiber, HostedOp& op);

    // Begins the transfer. Returns its result, or hosted_waits.
    static int64_t begin(Cord& cord, Fiber* fiber, HostedOp& op, const What& what, ByStack by_stack);

private:
    enum class Phase : uint8_t { trying, given, polling, pausing };

    HostedTransfer(Cord& cord, const What& what, ByStack by_stack)
        : guard_(cord, what.fd, true), op_(what.code, what.fd), what_(what), by_stack_(by_stack) {}

    // Each of these returns the transfer's result, hosted_waits, or op_again: go() must try it.
    static int64_t go_on(Cord& cord, Fiber* fiber, HostedOp& op);
    int64_t go(int64_t result, Cord& cord, Fiber* fiber, HostedOp& op);
    int64_t wait_ended(int64_t result);
    int64_t try_now();
    int64_t tried(int64_t result);
    int64_t refused(bool tried);
    int64_t begin_poll();
    int64_t polled(int64_t result);
    int64_t begin_pause(int64_t duration_ns);
    int64_t paused(int64_t error);
    int64_t woken(int64_t result);
    int64_t wait(Phase phase, Wait& wait, int64_t deadline, int on_deadline);
    int64_t deadline() const { return guard_.cord().sched.current->call.op->deadline; }
    Op poll() const;

    DescriptorGuard guard_;
    Op op_; // the transfer; while it waits, the poll or the pause
    What what_;
    ByStack by_stack_;
    Phase phase_ = Phase::trying;
    Retry retry_;
    bool timed_ = false;         // the poll ends when it is time to try again
    bool polls_by_call_ = false; // polls by a call after each pause, as the ring refuses polls
};

} // namespace fiberrt
