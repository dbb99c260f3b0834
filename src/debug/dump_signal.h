// SPDX-License-Identifier: MIT OR Apache-2.0
// Dumps by a signal, if the program or its user asks for them (fiber_dump_on_signal, FIBERRT_DUMP_SIGNAL), and the
// signal by which dumps ask for the frames of running fibers (fiber_dump_running_signal).
#pragma once

#include "debug/ask_thread.h"

namespace fiberrt {

struct Snapshot;

// Start and stop the dumps, and set the signal, with the results of the calls of these names.
int dump_on_signal(int signal, int fd, unsigned flags);
int dump_running_signal(int signal);

bool asks_running(); // whether there is such a signal

// Asks for the frames of a fiber that was running. at_most_ns: how long it waits. Null: out has them; else the text
// says why there are none.
const char* frames_of_running(const Snapshot& seen, int64_t at_most_ns, ThreadFrames& out);

// For fork: between lock and unlock, no thread starts or stops dumps. dump_signal_forked is for the child, which has
// none.
void dump_signal_lock();
void dump_signal_unlock();
void dump_signal_forked();

} // namespace fiberrt
