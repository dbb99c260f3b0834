// SPDX-License-Identifier: MIT OR Apache-2.0
// A counting semaphore. It serves callers in order: small requests do not overtake a large one, even if there are
// permits for them.
// fuzz: waiting 95 %
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct Semaphore : Waiters {
    uint64_t permits = 0; // at most INT64_MAX

    // Grants the request if there are permits and no waiter came before. Under the lock.
    bool try_take(uint64_t amount) {
        if (permits < amount || first()) return false;
        permits -= amount;
        return true;
    }
};

// Takes permits, and waits if there are too few. 0, or why the wait ended early.
int semaphore_wait(Semaphore& semaphore, Caller caller, uint64_t amount, int64_t timeout_ns);
int semaphore_post(Semaphore& semaphore, uint64_t amount); // 0, -EOVERFLOW
extern const WaiterKind semaphore_waiter;                  // for select

} // namespace fiberrt
