// SPDX-License-Identifier: MIT OR Apache-2.0
// The times of fibers, which accounting measures.
#pragma once

namespace fiberrt_python {

struct FiberObject;

extern bool keeps_times; // whether accounting has ever been on

// Keeps the times of the calling fiber, which ends, for those who ask later.
void times_keep(FiberObject* fiber);

} // namespace fiberrt_python
