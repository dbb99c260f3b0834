// SPDX-License-Identifier: MIT OR Apache-2.0
// Performs operations on descriptors, for functions that take a descriptor and for methods of sockets.
#pragma once

#include "waiting.h"

namespace fiberrt_python {

bool flags_of(PyObject* object, int* out); // converts an int; returns false with an exception set

// Whether the caller may wait as a fiber: its thread has fibers, and it does not run in a greenlet, nor in a signal handler
// or finalizer that runs during a switch. Never switches.
bool may_wait();

// Calls operation() until it returns a result, 0 or more, within the timeout. Returns -1 with an exception set. The
// world must be open.
template <typename Operation>
int64_t perform(const char* what, const Timeout& timeout, Operation operation) {
    WaitsFor reason(what);
    for (;;) {
        int64_t result;
        {
            TimeoutScope scope(timeout);
            result = scope.error() ? scope.error() : operation();
        }
        switch (settle_io(result, &timeout)) {
        case Settled::done: return result;
        case Settled::timed_out: PyErr_SetString(PyExc_TimeoutError, "timed out"); return -1;
        case Settled::again: continue;
        case Settled::raised: return -1;
        case Settled::failed: raise_errno(result); return -1;
        }
    }
}

// Returns a new bytes object of up to `size` bytes, filled by perform_it(memory, room).
template <typename Perform>
PyObject* into_bytes(PyObject* size, Perform perform_it) {
    Py_ssize_t room = PyNumber_AsSsize_t(size, PyExc_OverflowError);
    if (room == -1 && PyErr_Occurred()) return nullptr;
    if (room < 0) {
        PyErr_SetString(PyExc_ValueError, "a number of bytes must not be negative");
        return nullptr;
    }
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, room);
    if (!bytes) return nullptr;
    int64_t result = perform_it(PyBytes_AS_STRING(bytes), size_t(room));
    if (result < 0) {
        Py_DECREF(bytes);
        return nullptr;
    }
    if (result != room) _PyBytes_Resize(&bytes, Py_ssize_t(result));
    return bytes;
}

} // namespace fiberrt_python
