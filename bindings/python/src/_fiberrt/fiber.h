// SPDX-License-Identifier: MIT OR Apache-2.0
// The type fiberrt.Fiber. An object stands for one fiber of the core's, or for a thread's main flow, and outlives it:
// it keeps the result. Its members are guarded by the GIL; `execution` belongs to its thread.
#pragma once

#include "world.h"

namespace fiberrt_python {

struct FiberObject {
    PyObject_HEAD World* world; // null once it has ended
    fiber_t handle;             // of the core's fiber
    FiberObject* next;          // in `live` of its world; once it has failed and nobody knows, in that of the failed
    FiberObject* previous;
    Execution execution;
    fiber_event_t ended; // those who wait for its end, of any thread

    PyObject* function;  // until it has run
    PyObject* arguments; // a tuple: those by position, then those by name
    PyObject* names;     // a tuple of these names, or null
    PyObject* context;   // until it begins

    PyObject* result;    // once done
    PyObject* exception; // or this
    PyObject* thrown;    // a list of what throw() was given and has not been raised
    PyObject* watchers;  // a list of Queues into which it is put when it ends, or null
    PyObject* name;
    PyObject* locals; // a dict: of fiberrt.local
    PyObject* weak_references;
    const char* waits_for; // while it waits, for repr and dump
    uint64_t number;
    size_t stack; // bytes of its stack
    bool main_flow;
    bool survivor; // of a fork, with no main flow to go back to: its end is that of the process
    bool early;    // it is started already, to get its stack, and its turn has not come
    bool started;
    bool done;
    bool cancelled;  // asked to be, before it began
    bool unreported; // it has failed, and is in the list of those of which nobody knows
};

extern PyTypeObject FiberType;

inline FiberObject* new_reference(FiberObject* fiber) {
    Py_INCREF(reinterpret_cast<PyObject*>(fiber));
    return fiber;
}

FiberObject* fiber_allocate();
// Finalizers of what a fiber drops may set its locals and its context variables anew: so often these are dropped, too.
constexpr int drop_rounds = 16;
// Drops what a fiber has while it runs, but not its result: what is left after all rounds goes with the object. state:
// that of its thread, which has its context; null: it has not begun.
void fiber_drop(FiberObject* fiber, PyThreadState* state);
// The end of a fiber: of its result and exception one is null. Takes the references. Wakes who waits for it.
void fiber_finish(FiberObject* fiber, PyObject* result, PyObject* exception);
// Of hooks: a fiber of the core's is no more.
void fiber_destroyed(FiberObject* fiber);
// Whether the caller can wait for its end; false: RuntimeError is set.
bool fiber_can_be_awaited(FiberObject* fiber);
void report_failed(); // writes about all fibers that have failed and of which nobody has asked
void forget_failed(); // by a fork: the parent does
// By a fork, or with their thread: they have failed, why, and go to `lost`; of a list, all but one.
void fiber_lose(FiberObject* fiber, FiberList& lost, PyObject* why);
void fibers_lose(FiberList& list, FiberObject* but, FiberList& lost, PyObject* why);
// The same of those that would not end with their thread; but they keep what they have, as they may yet run.
void fibers_give_up(FiberList& list);
// Wakes who waits for them, and drops what they had: finalizers may do anything. The core has them no more.
void fibers_lost(FiberList& lost);

// The exception that is set, normalized, with its traceback, and clears it.
PyObject* exception_take();
void exception_set(PyObject* exception);

extern PyMethodDef fiber_functions[];

} // namespace fiberrt_python
