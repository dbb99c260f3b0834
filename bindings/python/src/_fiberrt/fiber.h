// SPDX-License-Identifier: MIT OR Apache-2.0
// The type fiberrt.Fiber. An object represents a fiber of the core, or a thread's main flow. It outlives the fiber, and
// keeps its result. The GIL guards its members; `execution` belongs to the fiber's thread.
#pragma once

#include "world.h"

namespace fiberrt_python {

struct FiberObject {
    PyObject_HEAD World* world; // null after the end
    fiber_t handle;             // the core's fiber
    FiberObject* next;          // in world->live; after an unreported failure in the list `failed`
    FiberObject* previous;
    PyObject* running_loop; // the event loop that this fiber runs, or null
    Execution execution;
    fiber_event_t ended; // fibers of any thread wait for the end here

    PyObject* function;  // null after the call
    PyObject* arguments; // a tuple: positional arguments, then keyword arguments
    PyObject* names;     // a tuple of the keywords, or null
    PyObject* context;   // until the fiber begins

    PyObject* result;    // set when done,
    PyObject* exception; // or this
    PyObject* thrown;    // a list of exceptions given to throw() and not yet raised
    PyObject* watchers;  // a list of Queues and callbacks that get this object when it ends, or null
    PyObject* name;
    PyObject* locals;           // a dict for fiberrt.local
    LoopSettings loop_settings; // while other settings are in the thread
    PyObject* weak_references;
    const char* waits_for; // set while it waits, for repr and dump
    uint64_t number;
    size_t stack;         // stack size in bytes
    fiber_times_t* times; // set when it has ended, if accounting was on then
    int gil_kept; // set while C code of the fiber has released the GIL as it believes, but it is held: native.cc
    bool main_flow;
    bool survivor;  // it called fork(), and the child has no main flow: the process ends with this fiber
    bool early;     // it was started to get its stack, before its turn
    bool abandoned; // the end of the program neither cancels it nor waits for it
    bool started;
    bool done;
    bool cancelled;  // cancelled before it began
    bool unreported; // it has failed, and the exception has not been reported
};

extern PyTypeObject FiberType;

inline FiberObject* new_reference(FiberObject* fiber) {
    Py_INCREF(reinterpret_cast<PyObject*>(fiber));
    return fiber;
}

FiberObject* fiber_allocate();
// Finalizers of dropped objects may set the fiber's locals and context variables again. This is the maximal number of
// rounds in which these are dropped, too.
constexpr int drop_rounds = 16;
// Drops the objects that a fiber holds while it runs, but not its result. Objects left after all rounds are dropped
// with the FiberObject. state is the thread's state, which holds the fiber's context; null if the fiber has not begun.
void fiber_drop(FiberObject* fiber, PyThreadState* state);
// Ends a fiber with a result or an exception; the other one is null. Takes the references. Wakes all waiters.
void fiber_finish(FiberObject* fiber, PyObject* result, PyObject* exception);
// Called by the hook when the core has destroyed the fiber.
void fiber_destroyed(FiberObject* fiber);
// Whether the caller can wait for the fiber's end; if not, RuntimeError is set.
bool fiber_can_be_awaited(FiberObject* fiber);
void report_failed(); // prints the exceptions of failed fibers that the program has not seen
void forget_failed(); // in the child of a fork: the parent reports them
// Marks a fiber that a fork or the end of the thread has lost as failed with `why`, and moves it to `lost`.
// fibers_lose() does so for all fibers of a list, except `but`.
void fiber_lose(FiberObject* fiber, FiberList& lost, PyObject* why);
void fibers_lose(FiberList& list, FiberObject* but, FiberList& lost, PyObject* why);
// Marks fibers that do not end with their thread as failed. They keep their objects, as they may still run.
void fibers_give_up(FiberList& list);
// Wakes the waiters of lost fibers, and drops the fibers' objects; this may run any finalizer. The core no longer has
// these fibers.
void fibers_lost(FiberList& lost);

// Returns the current exception, normalized and with its traceback, and clears it.
PyObject* exception_take();
void exception_set(PyObject* exception);

extern PyMethodDef fiber_functions[];

} // namespace fiberrt_python
