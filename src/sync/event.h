// SPDX-License-Identifier: MIT OR Apache-2.0
// An event: set or not. One that resets itself is set for one waiter; a manual one stays set for all until it is reset.
// fuzz: waiting 95 %
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct Event : Waiters {
    bool manual = false;
    bool is_set = false;

    // What a waiter's number is: whether it is given to one alone.
    uint64_t alone() const { return !manual; }
    bool try_take() { // under the lock
        if (!is_set) return false;
        if (!manual) is_set = false;
        return true;
    }
};

int event_wait(Event& event, Caller caller, int64_t timeout_ns);
void event_set(Event& event);
extern const WaiterKind event_waiter;

} // namespace fiberrt
