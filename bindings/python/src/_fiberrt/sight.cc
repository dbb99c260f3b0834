// SPDX-License-Identifier: MIT OR Apache-2.0
// Looking at all fibers: for dump(), debuggers and tests.
#include "functions.h"
#include "waiting.h"

namespace fiberrt_python {

namespace {

PyObject* fibers(PyObject*, PyObject*) {
    worlds_sweep();
    PyObject* list = PyList_New(0);
    if (!list) return nullptr;
    NoCollection while_looking;
    for (World* world = all_worlds; world; world = world->next) {
        int error = PyList_Append(list, reinterpret_cast<PyObject*>(world->main));
        for (FiberObject* fiber = world->live.first; fiber && error == 0; fiber = fiber->next)
            error = PyList_Append(list, reinterpret_cast<PyObject*>(fiber));
        if (error < 0) {
            Py_DECREF(list);
            return nullptr;
        }
    }
    return list;
}

// The members of a fiber that waits are whole while we have the GIL, whatever its thread: they are put in the place of
// ours, and the interpreter is asked.
PyObject* frame(PyObject*, PyObject* object) {
    if (!Py_IS_TYPE(object, &FiberType)) return PyErr_Format(PyExc_TypeError, "frame() takes a Fiber");
    auto* fiber = reinterpret_cast<FiberObject*>(object);
    worlds_sweep();
    if (fiber->done || !fiber->started || !world_has_state(fiber->world)) Py_RETURN_NONE;
    PyFrameObject* found;
    if (fiber->world->loaded == &fiber->execution) {
        found = PyThreadState_GetFrame(fiber->world->state);
    } else {
        PyThreadState* state = PyThreadState_Get();
#if PY_VERSION_HEX < 0x030D0000
        _PyCFrame* own = state->cframe;
        state->cframe = fiber->execution.cframe;
        found = PyThreadState_GetFrame(state);
        state->cframe = own;
#else
        auto* own = state->current_frame;
        state->current_frame = fiber->execution.current_frame;
        found = PyThreadState_GetFrame(state);
        state->current_frame = own;
#endif
    }
    return found ? reinterpret_cast<PyObject*>(found) : Py_NewRef(Py_None);
}

PyObject* thread_of(PyObject*, PyObject* object) {
    if (!Py_IS_TYPE(object, &FiberType)) return PyErr_Format(PyExc_TypeError, "thread_of() takes a Fiber");
    auto* fiber = reinterpret_cast<FiberObject*>(object);
    worlds_sweep();
    if (!fiber->world) Py_RETURN_NONE;
    return PyLong_FromUnsignedLong(fiber->world->thread);
}

// Threads whose fibers' turns an observer can count, as it has the GIL: each that runs one of several.
PyObject* running(PyObject*, PyObject*) {
    worlds_sweep();
    PyObject* list = PyList_New(0);
    if (!list) return nullptr;
    NoCollection while_looking;
    for (World* world = all_worlds; world; world = world->next) {
        if (world->released || world->live_count == 0) continue;
        PyObject* item = Py_BuildValue("(Ok)", world->current, world->turns);
        int error = item ? PyList_Append(list, item) : -1;
        Py_XDECREF(item);
        if (error < 0) {
            Py_DECREF(list);
            return nullptr;
        }
    }
    return list;
}

// The main flow of a thread has that's number, also where no world is open.
PyObject* ident(PyObject*, PyObject*) {
    World* here = this_world;
    bool fiber = here && (!here->current->main_flow || here->current->survivor);
    return fiber ? PyLong_FromUnsignedLongLong(here->current->number)
                 : PyLong_FromUnsignedLong(PyThread_get_thread_ident());
}

} // namespace

PyMethodDef sight_functions[] = {
    {"fibers", fibers, METH_NOARGS, "fibers()\n--\n\nThe live fibers of all threads, the main flows first of each."},
    {"frame", frame, METH_O, "frame(fiber, /)\n--\n\nThe innermost frame of a fiber, or None."},
    {"running", running, METH_NOARGS,
     "running()\n--\n\nOf each thread that has fibers and is not idle the fiber that runs, and how often the thread "
     "was "
     "given to others."},
    {"thread_of", thread_of, METH_O, "thread_of(fiber, /)\n--\n\nThe threading.get_ident() of a live fiber's thread."},
    {"ident", ident, METH_NOARGS,
     "ident()\n--\n\nThe running fiber's number, which no other has had, or in a thread's main flow the thread's."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
