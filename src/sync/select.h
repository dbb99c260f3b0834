// SPDX-License-Identifier: MIT OR Apache-2.0
// Select: waits for the first of several cases.
//
// It first tries each case by itself, as the case's own call would. If none is possible, it waits for all of them: in
// the lists of primitives (select_list.h), for the ends of fibers and scopes and for descriptors (select_watch.h), and
// until the earliest timer.
#pragma once

#include "sync/waiting.h"

#include "fiberrt.h"

namespace fiberrt {

// Selects among well-formed cases. Returns the index of the selected case, or -E... await_descriptor: a fiber's
// function whose argument is a case; it waits for the descriptor of the case, and returns the events or -E...
int select_cases(Caller caller, fiber_case_t* cases, uint32_t count, int64_t timeout_ns,
                 void* (*await_descriptor)(void* fiber_case));

} // namespace fiberrt
