// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of a wait, as dumps and fiber_info have it.
#pragma once

#include "base/report.h"
#include "debug/look.h"

namespace fiberrt {

// Puts why a fiber waits: "sleeps", "waits for read on descriptor 3".
void put_wait(Report& r, const WaitSnapshot& wait);

// Puts why a fiber without a Wait does not run: "runnable", "waits for a wakeup", or its host's words.
void put_state_without_wait(Report& r, const Snapshot& seen);

// Puts why a fiber waits or does not run, without numbers: many fibers have the same text.
void put_wait_kind(Report& r, const Snapshot& seen);

} // namespace fiberrt
