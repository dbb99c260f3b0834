// SPDX-License-Identifier: MIT OR Apache-2.0
// A coroutine written in C++: an object with send(), throw() and close(), which `await` and asyncio's tasks accept.
// Awaiting one that need not wait costs a call and an object, and no Python frame.
#pragma once

#include <Python.h>

namespace fiberrt_python {

struct CoroutineObject;

// What a coroutine does: a constant for each function.
struct CoroutineKind {
    const char* name; // such as "StreamReader.read"
    // Called at the first send(), and again after each wait that has ended well. It returns what it has done: a result,
    // with PYGEN_RETURN; an exception, with PYGEN_ERROR; or one of the calls below.
    PySendResult (*step)(CoroutineObject*, PyObject** result);
    void (*waited)(CoroutineObject*); // called when a wait ends, in any way; or null
};

enum class CoroutineState : unsigned char { fresh, runs, waits, over };

struct CoroutineObject {
    PyObject_HEAD const CoroutineKind* kind;
    PyObject* owner;    // whose method it is
    PyObject* argument; // for step(), like the numbers; or null
    PyObject* inner;    // the iterator that it waits for; null: it waits for nothing, or for the loop's next turn
    Py_ssize_t number;
    Py_ssize_t offset;
    CoroutineState state;
    bool delegates;         // the result of inner is that of the coroutine
    unsigned char passed;   // for step(): what has been done before
    const PyObject* waiter; // for waited(): the future that step() waits for
};

extern PyTypeObject CoroutineType;

// Returns null with an exception set.
PyObject* coroutine_new(const CoroutineKind* kind, PyObject* owner, Py_ssize_t number, PyObject* argument);

// For step(), which returns their results. wait: waits for an awaitable, and calls step() again. delegate: waits for an
// awaitable, whose result is that of the coroutine. next_turn: gives way for a turn of the loop, as asyncio.sleep(0)
// does. Each takes the reference of the awaitable; null: an exception is set.
PySendResult coroutine_wait(CoroutineObject* coroutine, PyObject* awaitable);
PySendResult coroutine_delegate(CoroutineObject* coroutine, PyObject* awaitable);
PySendResult coroutine_next_turn(PyObject** result);

} // namespace fiberrt_python
