// SPDX-License-Identifier: MIT OR Apache-2.0
// The running event loop of each fiber.
#pragma once

#include "fiber.h"

namespace fiberrt_python {

// Notes the running loop that the calling fiber has begun before the world was opened or this module knew of loops.
void running_loop_adopt(World* world);

// Called by a switch between fibers with different running loops. It calls only functions of _asyncio, which are in C.
void running_loop_exchange(World* world, FiberObject* to);

PyObject* fiber_await(PyObject* self); // Fiber.__await__

} // namespace fiberrt_python
