// SPDX-License-Identifier: MIT OR Apache-2.0
// What the types to wait for share: Lock, RLock, Semaphore, Event, Queue and Channel. Each has something of the core's
// inside, which keeps the order of those who wait and passes on what one was given that does not come. What needs no wait
// needs no world either, and never switches.
#pragma once

#include "arguments.h"
#include "functions.h"
#include "waiting.h"

namespace fiberrt_python {

struct EventObject {
    PyObject_HEAD PyObject* weak_references;
    fiber_event_t event;
};

extern PyTypeObject EventType;

int locks_add(PyObject* module);

// Whether a permit was taken. no: not in time. raised: an exception is set.
enum class Got { yes, no, raised };

Got sem_take_slowly(fiber_sem_t* sem, const Timeout& timeout, const char* what);
// At once, or by waiting.
inline Got sem_take(fiber_sem_t* sem, bool block, const Timeout& timeout, const char* what) {
    if (fiber_sem_trywait(sem, 1) == 0) [[likely]]
        return Got::yes;
    return block ? sem_take_slowly(sem, timeout, what) : Got::no;
}

// Of a type of which nothing is to be traversed.
template <class Object>
void deallocate_plain(PyObject* self) {
    if (reinterpret_cast<Object*>(self)->weak_references) PyObject_ClearWeakRefs(self);
    Py_TYPE(self)->tp_free(self);
}

} // namespace fiberrt_python
