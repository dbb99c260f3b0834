// SPDX-License-Identifier: MIT OR Apache-2.0
// One transfer of a hosted fiber: what DescriptorUse::run and io/ready.h do by waiting in the middle, in steps.
//
//   trying ── done at once, or refused ──▶ its result
//     ├────▶ given      the backend has it ──▶ its result
//     └ -EAGAIN: readiness is waited for (polling), then it is tried again; if that is in vain, after a pause (pausing)
//                A ring may refuse polls: readiness is then looked for after each pause.
//
// For what neither is a file with a position nor may block the thread; what turns out to be such is left to a fiber
// with a stack.
#pragma once

#include "stackless/hosted.h"
#include "io/attempt.h"
#include "io/io.h"

namespace fiberrt {

class HostedTransfer {
public:
    struct What {
        OpCode code; // read, write, recv, send, accept, poll
        int fd;
        int flags;
        int events; // that it waits for
        void* address;
        void* address2;
        uint32_t length;
        bool try_first = false; // it may end where nothing is ready
    };

    // Begins an operation anew, as a call of a fiber with a stack.
    using ByStack = int64_t (*)(Cord& cord, Fiber* fiber, HostedOp& op);

    // Its result, or hosted_waits.
    static int64_t begin(Cord& cord, Fiber* fiber, HostedOp& op, const What& what, ByStack by_stack);

private:
    static constexpr int64_t needs_stack = op_blocking;
    enum class Phase : uint8_t { trying, given, polling, pausing };

    HostedTransfer(Cord& cord, const What& what, ByStack by_stack)
        : use_(cord, what.fd), op_(what.code, what.fd), what_(what), by_stack_(by_stack) {}

    static int64_t go_on(Cord& cord, Fiber* fiber, HostedOp& op);
    int64_t ended(int64_t result, Cord& cord, Fiber* fiber, HostedOp& op);
    int64_t go(int64_t result);
    int64_t attempt_now();
    int64_t try_now();
    int64_t after_poll(int64_t result);
    int64_t give(Phase phase);
    int64_t begin_poll(bool hint);
    int64_t begin_pause();
    int64_t ended_early(int64_t error);
    bool ready() const;
    int64_t wait(Wait& wait, int64_t deadline, int on_deadline);
    HostedOp& hosted();

    DescriptorUse use_;
    Op op_; // or, while it waits for readiness, the poll; or the pause
    What what_;
    ByStack by_stack_;
    Phase phase_ = Phase::trying;
    bool waited_ = false;
    bool tries_again_ = false; // when some time is over, whatever a poll tells
    bool looks_ = false;       // after each pause whether it is ready, as the ring refuses polls
    uint8_t pauses_ = 0;
    uint8_t tries_ = 0;
};

} // namespace fiberrt
