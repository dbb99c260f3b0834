// SPDX-License-Identifier: MIT OR Apache-2.0
// Yields and reschedules. A yield parks the fiber until it is woken; a reschedule lets the other runnable fibers run
// once.
// fuzz: switch 95 %
#pragma once

#include "core/scheduler.h"

namespace fiberrt {

// Parks the fiber in a yield; or, if it has a permit, takes the permit and queues the fiber. The caller then switches.
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

// Yields for at most timeout_ns. 0: woken; -ETIMEDOUT; or why the call must fail.
int yield_timeout(Cord& cord, Fiber* me, int64_t timeout_ns);

// Polls, and queues the fiber behind all fibers that are runnable then.
int poll_and_reschedule(Cord& cord, Fiber* me);

// Polls and reschedules if the fiber has had the thread for longer than a time slice.
int reschedule_if_due(Cord& cord, Fiber* me);

} // namespace fiberrt
