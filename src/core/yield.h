// SPDX-License-Identifier: MIT OR Apache-2.0
// Yields: a fiber gives the thread to the others until it is woken. And reschedules: until the others have run.
// fuzz: switch 95 %
#pragma once

#include "core/relay.h"

namespace fiberrt {

// Parks the fiber in a yield, or takes its permit and queues it. The others run next.
inline void yield_begin(Cord& cord, Fiber* me) {
    if (me->sched.permit) {
        me->sched.permit = false;
        make_runnable(cord, me, State::woken, 0);
    } else {
        me->sched.state = State::yielding;
    }
}

inline int yield(Cord& cord, Fiber* me) {
    yield_begin(cord, me);
    return give_way(cord, me);
}

// A yield that is woken by `timeout_ns` at the latest: -ETIMEDOUT.
int yield_timeout(Cord& cord, Fiber* me, int64_t timeout_ns);

// Polls, and queues the fiber behind all that are runnable then.
int poll_and_take_turns(Cord& cord, Fiber* me);

// Polls and reschedules if the fiber has had the thread for longer than a time slice.
int reschedule_if_due(Cord& cord, Fiber* me);

} // namespace fiberrt
