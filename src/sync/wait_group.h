// SPDX-License-Identifier: MIT OR Apache-2.0
// A wait group: a count of what is still to be done, and a list of waiters for the count to be zero.
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct WaitGroup : Waiters {
    int64_t count = 0;
};

int wait_group_add(WaitGroup& group, int64_t n); // 1: the count is 0 now; 0; -EINVAL below zero, -EOVERFLOW
int wait_group_wait(WaitGroup& group, Caller caller, int64_t timeout_ns);

} // namespace fiberrt
