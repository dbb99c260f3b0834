// SPDX-License-Identifier: MIT OR Apache-2.0
// The watchdog, if the program starts one (fiber_watchdog_start): a thread that looks at all cords at intervals, and
// reports a fiber that keeps its thread for too long.
//
// It only reads. Cords count each switch in Cord::sched.budget and each poll in Cord::counters.polls anyway. If neither
// these nor the current fiber have changed between two looks, there was no switch. So the watchdog costs fibers
// nothing.
#pragma once

#include "fiberrt.h"

namespace fiberrt {

// Start and stop the watchdog, with the results of fiber_watchdog_start and fiber_watchdog_stop.
int watchdog_start(const fiber_watchdog_t& what);
int watchdog_stop();

// For fork: between lock and unlock, no thread starts or stops the watchdog. watchdog_forked is for the child, which
// has no watchdog.
void watchdog_lock();
void watchdog_unlock();
void watchdog_forked();

} // namespace fiberrt
