// SPDX-License-Identifier: MIT OR Apache-2.0
// A wait group: a count of jobs that are not done, and a list of waiters until the count is 0.
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct WaitGroup : Waiters {
    int64_t count = 0;
};

// Adds n, which may be negative. 1: the count is 0 now; 0; -EINVAL: the count would be below 0; -EOVERFLOW.
int wait_group_add(WaitGroup& group, int64_t n);
// Waits until the count is 0. 0, or why the wait ended early.
int wait_group_wait(WaitGroup& group, Caller caller, int64_t timeout_ns);

} // namespace fiberrt
