// SPDX-License-Identifier: MIT OR Apache-2.0
// The running event loop of each fiber.
#pragma once

#include "fiber.h"

namespace fiberrt_python {

// Notes the running loop that the calling fiber has begun before the world was opened or this module knew of loops.
void running_loop_adopt(World* world);

// Called by a switch to a fiber if the thread has another running loop. It runs no Python code.
void running_loop_exchange(World* world, FiberObject* to);

PyObject* fiber_await(PyObject* self); // Fiber.__await__

} // namespace fiberrt_python
