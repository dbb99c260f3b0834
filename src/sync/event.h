// SPDX-License-Identifier: MIT OR Apache-2.0
// An event: set or not. Setting an automatic event releases one waiter; a manual event stays set for all until it is
// reset.
// fuzz: waiting 95 %
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct Event : Waiters {
    bool manual = false;
    bool is_set = false;

    // The number of the event's waiters: whether a set is given to only one of them.
    uint64_t serves_one() const { return !manual; }
    bool try_take() { // under the lock
        if (!is_set) return false;
        if (!manual) is_set = false;
        return true;
    }
};

int event_wait(Event& event, Caller caller, int64_t timeout_ns); // 0, or why the wait ended early
void event_set(Event& event);
extern const WaiterKind event_waiter; // for select

} // namespace fiberrt
