// SPDX-License-Identifier: MIT OR Apache-2.0
// Dumps by a signal, if the program or its user asks for them (fiber_dump_on_signal, FIBERRT_DUMP_SIGNAL).
#pragma once

namespace fiberrt {

// Starts or stops the dumps, with the results of fiber_dump_on_signal.
int dump_on_signal(int signal, int fd, unsigned flags);

// For fork: between lock and unlock, no thread starts or stops dumps. dump_signal_forked is for the child, which has
// none.
void dump_signal_lock();
void dump_signal_unlock();
void dump_signal_forked();

} // namespace fiberrt
