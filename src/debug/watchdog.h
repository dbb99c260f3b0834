// SPDX-License-Identifier: MIT OR Apache-2.0
// The watchdog, if the program asks for one: a thread that looks at all cords from time to time, and tells of a fiber
// that keeps its thread for too long.
//
// It only looks. Every switch is counted down in Cord::sched.budget anyway, every poll in Cord::counters.polls; where
// neither these nor the fiber change from one look to the next, there has been no switch between. So fibers pay nothing
// for it.
#pragma once

#include "fiberrt.h"

namespace fiberrt {

int watchdog_start(const fiber_watchdog_t& what); // 0, or as fiber_watchdog_start
int watchdog_stop();

// Around a fork; and in the child, which has none.
void watchdog_hold();
void watchdog_let_go();
void watchdog_forked();

} // namespace fiberrt
