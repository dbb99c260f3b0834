// SPDX-License-Identifier: MIT OR Apache-2.0
// The times of fibers, which accounting measures.
#pragma once

namespace fiberrt_python {

struct FiberObject;

extern bool keeps_times; // whether accounting is on, as far as this module knows

// Keeps the times of a fiber that ends in its object, where times() finds them.
void times_keep(FiberObject* fiber);

} // namespace fiberrt_python
