// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs an operation in the record of a stackless fiber. For a fiber with a stack, sync/perform.h runs the same
// operation, and parks between the steps.
//
// An operation is a class with
//     int64_t begin()                tries, or links a wait: returns the result, or must_wait
//     int64_t go_on(int64_t ended)   continues after that wait, which ended with `ended`: returns as begin() does
//     SharedWait& wait()             the wait that was linked last
#pragma once

#include "stackless/hosted.h"

namespace fiberrt {

// Continues after begin() or go_on() has returned `result`. Returns the operation's result, or hosted_waits.
template <class Operation>
int64_t stackless_step(Cord& cord, HostedOp& op, Operation& it, int64_t result) {
    while (result == must_wait) {
        SharedWait& wait = it.wait();
        if (!shared_wait_is_over(wait)) return hosted_park(cord, cord.sched.current, wait, op.deadline);
        result = it.go_on(wait.result); // coverage: race
    }
    return result;
}

template <class Operation>
int64_t stackless_go_on(Cord& cord, Fiber*, HostedOp& op) {
    auto& it = op.in<Operation>();
    return stackless_step(cord, op, it, it.go_on(shared_wait_ended(it.wait())));
}

// Begins an operation of the current fiber, which is stackless.
template <class Operation, class... Arguments>
[[gnu::noinline]] int64_t stackless_begin(Cord& cord, int64_t deadline, Arguments... arguments) {
    HostedOp& op = *cord.sched.current->call.op;
    op.deadline = deadline;
    op.go_on = stackless_go_on<Operation>;
    auto& it = op.make<Operation>(arguments...);
    return stackless_step(cord, op, it, it.begin());
}

} // namespace fiberrt
