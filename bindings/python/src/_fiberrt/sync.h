// SPDX-License-Identifier: MIT OR Apache-2.0
// The common parts of Lock, RLock, Semaphore, Event, Queue and Channel. Each contains a primitive of the core, which
// keeps the order of the waiters. If a waiter has been granted a permit but does not take it, the core passes it on. A
// call that does not have to wait needs no world and does not switch, except that polls let other fibers run
// (poll_turn).
#pragma once

#include "arguments.h"
#include "functions.h"
#include "waiting.h"

#include <stddef.h>

namespace fiberrt_python {

// Types whose counterparts in threading and queue are Python classes: their objects have attributes.
struct EventObject {
    PyObject_HEAD PyObject* weak_references;
    PyObject* attributes; // a dict, or null
    fiber_event_t event;
};

extern PyTypeObject EventType;

int locks_add(PyObject* module);

// The result of taking a permit. no: not in time. raised: an exception is set.
enum class Got { yes, no, raised };

Got sem_take_slowly(fiber_sem_t* sem, const Timeout& timeout, const char* what);
// Takes a permit at once or, if `block` is true, waits for one.
inline Got sem_take(fiber_sem_t* sem, bool block, const Timeout& timeout, const char* what) {
    if (!block && !poll_turn()) return Got::raised;
    if (fiber_sem_trywait(sem, 1) == 0) [[likely]]
        return Got::yes;
    return block ? sem_take_slowly(sem, timeout, what) : Got::no;
}

// The number of the caller as an owner of a lock: a fiber, or a thread's main flow, which needs no world. Numbers are
// never reused.
uint64_t own_number();

// Waits for a permit, even if a cancel or an interrupt comes: the caller's next wait raises it. Returns false with an
// exception set.
bool take_in_any_case(fiber_sem_t* sem);

// tp_dealloc for a type without members to traverse.
template <class Object>
void deallocate_plain(PyObject* self) {
    if (reinterpret_cast<Object*>(self)->weak_references) PyObject_ClearWeakRefs(self);
    Py_TYPE(self)->tp_free(self);
}

// tp_traverse for a type with `attributes`.
template <class Object>
int traverse_attributes(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(reinterpret_cast<Object*>(self)->attributes);
    return 0;
}

template <class Object>
int clear_attributes(PyObject* self) {
    Py_CLEAR(reinterpret_cast<Object*>(self)->attributes);
    return 0;
}

template <class Object>
void deallocate_with_attributes(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (reinterpret_cast<Object*>(self)->weak_references) PyObject_ClearWeakRefs(self);
    clear_attributes<Object>(self);
    Py_TYPE(self)->tp_free(self);
}

// Gives the objects of a type attributes.
template <class Object>
void give_attributes(PyTypeObject& type) {
    type.tp_basicsize = sizeof(Object);
    type.tp_weaklistoffset = offsetof(Object, weak_references);
    type.tp_dictoffset = offsetof(Object, attributes);
    type.tp_dealloc = deallocate_with_attributes<Object>;
    type.tp_traverse = traverse_attributes<Object>;
    type.tp_clear = clear_attributes<Object>;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
}

constexpr PyGetSetDef attributes_member = {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr,
                                           nullptr};

} // namespace fiberrt_python
