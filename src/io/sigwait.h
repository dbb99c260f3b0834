// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_sigwait: fibers that wait for signals.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>

namespace fiberrt {

struct Cord;

// Whether the thread blocks all signals of the set, so that they stay pending, and the set is not empty.
bool all_blocked(const sigset_t& set);

// Waits for one of the signals. Returns its number, or -E... *info receives the kernel's record of the signal; info may
// be null.
int wait_for_signal(Cord& cord, const sigset_t& set, signalfd_siginfo* info);

} // namespace fiberrt
