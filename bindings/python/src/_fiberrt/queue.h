// SPDX-License-Identifier: MIT OR Apache-2.0
// Queue and LifoQueue, for the files that put items into them.
#pragma once

#include "sync.h"

namespace fiberrt_python {

int queues_add(PyObject* module);
int channels_add(PyObject* module);
bool is_queue(PyObject* object);
// Puts an item into a Queue without a maxsize, even after its shutdown. Never waits, and runs no code of the program.
// Returns false with MemoryError set.
bool queue_put_at_once(PyObject* queue, PyObject* item);

} // namespace fiberrt_python
