// SPDX-License-Identifier: MIT OR Apache-2.0
// A counting semaphore. Callers are served in order: a large request is not overtaken by small ones that could be
// granted meanwhile.
// fuzz: waiting 95 %
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct Semaphore : Waiters {
    uint64_t permits = 0; // at most INT64_MAX

    // Under the lock. Grants the request if there are permits and no waiter came before.
    bool try_take(uint64_t amount) {
        if (permits < amount || first()) return false;
        permits -= amount;
        return true;
    }
};

int semaphore_wait(Semaphore& semaphore, Caller caller, uint64_t amount, int64_t timeout_ns);
int semaphore_post(Semaphore& semaphore, uint64_t amount); // 0, -EOVERFLOW
extern const WaiterKind semaphore_waiter;

} // namespace fiberrt
