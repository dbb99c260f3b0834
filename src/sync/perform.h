// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs an operation that waits for a primitive, for one_wait.cc and mutex.cc. The operation is written once, as steps
// (see stackless/steps.h). For a fiber with a stack, or a thread, perform() parks between the steps; a stackless fiber
// returns between them.
// fuzz: waiting 60 %
#pragma once

#include "stackless/steps.h"
#include "sync/waiting.h"

namespace fiberrt {

// Returns the operation's result; to a stackless fiber also must_wait. home null: the calling thread has no cord.
template <class Operation, class... Arguments>
[[gnu::always_inline]] inline int64_t perform(Cord* home, int64_t deadline, Arguments... arguments) {
    if (home && !home->sched.current->uses_stack()) [[unlikely]]
        return stackless_begin<Operation>(*home, deadline, arguments...);
    Operation operation(arguments...);
    int64_t result = operation.begin();
    while (result == must_wait) {
        int64_t ended = shared_wait_park(operation.wait(), deadline, SyncWait::stop_thread);
        if constexpr (Operation::waits_once) return operation.go_on(ended);
        result = operation.go_on(ended);
    }
    return result;
}

} // namespace fiberrt
