// SPDX-License-Identifier: MIT OR Apache-2.0
// Queue and LifoQueue, and what other files put into them.
#pragma once

#include "sync.h"

namespace fiberrt_python {

int queues_add(PyObject* module);
int channels_add(PyObject* module);
bool is_queue(PyObject* object);
// Of one without a maxsize; never waits, runs no code of the user's, and works though it has been shut down. false:
// MemoryError is set.
bool queue_put_at_once(PyObject* queue, PyObject* item);

} // namespace fiberrt_python
