// SPDX-License-Identifier: MIT OR Apache-2.0
// The frames of fibers that run, for dumps, if the program has given a signal for this (fiber_dump_running_signal).
#pragma once

#include "debug/ask_thread.h"
#include "debug/look.h"

namespace fiberrt {

// Sets the signal, with the results of fiber_dump_running_signal.
int dump_running_signal(int signal);

bool asks_running(); // whether there is such a signal

// Asks for the frames of a fiber that was running. at_most_ns: how long it waits. Null: out has them; else the text
// says why there are none.
const char* frames_of_running(const Snapshot& seen, int64_t at_most_ns, ThreadFrames& out);

// For fork: between lock and unlock, no thread sets the signal. running_frames_forked is for the child, which has none.
void running_frames_lock();
void running_frames_unlock();
void running_frames_forked();

} // namespace fiberrt
