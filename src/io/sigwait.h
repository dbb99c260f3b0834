// SPDX-License-Identifier: MIT OR Apache-2.0
// Signals, taken by fibers that wait for them.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>

namespace fiberrt {

struct Cord;

// Whether the thread would keep all of them pending, and there are any.
bool can_be_taken(const sigset_t& set);

// Waits for one of the signals. Returns its number, or -E... *info gets the kernel's record of it; info may be null.
int wait_for_signal(Cord& cord, const sigset_t& set, signalfd_siginfo* info);

} // namespace fiberrt
