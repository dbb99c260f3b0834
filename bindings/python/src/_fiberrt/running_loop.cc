// SPDX-License-Identifier: MIT OR Apache-2.0
// The running event loop of each fiber. asyncio keeps one for a thread; this file makes it the fiber's: a switch between
// fibers with different running loops exchanges it, with the other settings that a running loop makes in its thread.
#include "running_loop.h"

#include "functions.h"

namespace fiberrt_python {

namespace {

PyObject* set_of_thread; // asyncio's _set_running_loop()
PyObject* get_of_thread; // and _get_running_loop()
PyObject* until_ended;   // what Fiber.__await__ calls for a fiber that has not ended

void tell_asyncio(PyObject* loop) {
    PyObject* result = PyObject_CallOneArg(set_of_thread, loop ? loop : Py_None);
    if (!result) PyErr_WriteUnraisable(set_of_thread);
    Py_XDECREF(result);
}

// Exchanges the loop's current task, where asyncio keeps one for the thread instead of one for each loop (since Python
// 3.14). null: none. Returns the former one, a reference.
PyObject* swap_task([[maybe_unused]] PyObject* loop, [[maybe_unused]] PyObject* task) {
#if PY_VERSION_HEX >= 0x030E0000
    static PyObject* swap;
    if (!swap) {
        PyObject* module = PyImport_ImportModule("_asyncio"); // it has been imported before
        swap = module ? PyObject_GetAttrString(module, "_swap_current_task") : nullptr;
        Py_XDECREF(module);
    }
    PyObject* before = swap ? PyObject_CallFunctionObjArgs(swap, loop, task ? task : Py_None, nullptr) : nullptr;
    if (!before) PyErr_WriteUnraisable(loop);
    if (before == Py_None) Py_CLEAR(before);
    return before;
#else
    return nullptr;
#endif
}

void drop(LoopSettings& settings) {
    Py_CLEAR(settings.first_iteration);
    Py_CLEAR(settings.finalizer);
    settings.origin_depth = 0;
}

// Notes the running loop of the calling fiber. The loop changes the thread's settings just before this call, or restores
// them just after it; no switch comes in between.
void note(World* here, PyObject* loop) {
    FiberObject* fiber = here->current;
    if (loop == Py_None && here->runs_loop == fiber) drop(here->no_loop); // the loop restores these itself
    here->runs_loop = loop == Py_None ? nullptr : fiber;
    Py_XSETREF(fiber->running_loop, loop == Py_None ? nullptr : Py_NewRef(loop));
    if (fiber->running_loop) here->ran_loop = fiber;
}

PyObject* set_running_loop(PyObject*, PyObject* loop) {
    if (this_world) note(this_world, loop);
    return PyObject_CallOneArg(set_of_thread, loop);
}

// Called before a loop makes its settings: keeps those of the thread for the fibers that run no loop.
PyObject* keep_settings(PyObject*, PyObject*) {
    World* here = world();
    if (!here) return nullptr;
    if (here->runs_loop) Py_RETURN_NONE;
    drop(here->no_loop);
    here->no_loop = {Py_XNewRef(here->state->async_gen_firstiter), Py_XNewRef(here->state->async_gen_finalizer),
                     here->state->coroutine_origin_tracking_depth, nullptr};
    Py_RETURN_NONE;
}

PyObject* running_loop(PyObject*, PyObject*) {
    PyObject* loop = this_world ? this_world->current->running_loop : nullptr;
    return Py_NewRef(loop ? loop : Py_None);
}

PyObject* loop_of_thread(PyObject*, PyObject*) {
    World* here = this_world;
    if (!here) Py_RETURN_NONE;
    if (!here->ran_loop || !here->ran_loop->running_loop) {
        here->ran_loop = here->main->running_loop ? here->main : here->live.first;
        while (here->ran_loop && !here->ran_loop->running_loop) here->ran_loop = here->ran_loop->next;
    }
    return Py_NewRef(here->ran_loop ? here->ran_loop->running_loop : Py_None);
}

PyObject* follow_running_loops(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!takes("follow_running_loops", count, 3, 3)) return nullptr;
    if (set_of_thread) Py_RETURN_NONE;
    get_of_thread = Py_NewRef(args[0]);
    set_of_thread = Py_NewRef(args[1]);
    until_ended = Py_NewRef(args[2]);
    if (this_world) running_loop_adopt(this_world);
    Py_RETURN_NONE;
}

// An iterator over nothing, whose result is that of a fiber that has ended well.
struct ReadyObject {
    PyObject_HEAD PyObject* result;
};

PySendResult ready_send(PyObject* self, PyObject*, PyObject** result) {
    *result = Py_NewRef(reinterpret_cast<ReadyObject*>(self)->result);
    return PYGEN_RETURN;
}

PyObject* ready_next(PyObject* self) {
    PyObject* end = PyObject_CallOneArg(PyExc_StopIteration, reinterpret_cast<ReadyObject*>(self)->result);
    if (end) exception_set(end);
    return nullptr;
}

void ready_deallocate(PyObject* self) {
    PyObject* result = reinterpret_cast<ReadyObject*>(self)->result;
    PyObject_Del(self);
    Py_DECREF(result);
}

PyAsyncMethods ready_async = {nullptr, nullptr, nullptr, ready_send};

PyTypeObject ReadyType = [] {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "fiberrt._fiberrt.Ready";
    type.tp_basicsize = sizeof(ReadyObject);
    type.tp_dealloc = ready_deallocate;
    type.tp_as_async = &ready_async;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    type.tp_iter = PyObject_SelfIter;
    type.tp_iternext = ready_next;
    return type;
}();

} // namespace

void running_loop_adopt(World* world) {
    PyObject* loop = get_of_thread ? PyObject_CallNoArgs(get_of_thread) : nullptr;
    if (loop)
        note(world, loop);
    else
        PyErr_Clear();
    Py_XDECREF(loop);
}

void running_loop_exchange(World* world, FiberObject* to) {
    PyThreadState* state = world->state;
    LoopSettings& left = world->runs_loop ? world->runs_loop->loop_settings : world->no_loop;
    PyObject* task = world->runs_loop ? swap_task(world->runs_loop->running_loop, nullptr) : nullptr;
    left = {state->async_gen_firstiter, state->async_gen_finalizer, state->coroutine_origin_tracking_depth, task};
    world->runs_loop = to->running_loop ? to : nullptr;
    LoopSettings& settings = world->runs_loop ? to->loop_settings : world->no_loop;
    state->async_gen_firstiter = settings.first_iteration;
    state->async_gen_finalizer = settings.finalizer;
    state->coroutine_origin_tracking_depth = settings.origin_depth;
    task = settings.task;
    settings = {};
    tell_asyncio(to->running_loop);
    if (task) Py_XDECREF(swap_task(to->running_loop, task));
    Py_XDECREF(task);
}

PyObject* fiber_await(PyObject* self) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    if (!fiber->done || !fiber->result) {
        if (!until_ended) {
            PyObject* module = PyImport_ImportModule("fiberrt.aio"); // gives it
            if (!module) return nullptr;
            Py_DECREF(module);
        }
        return PyObject_CallOneArg(until_ended, self);
    }
    if (PyType_Ready(&ReadyType) < 0) return nullptr;
    auto* ready = PyObject_New(ReadyObject, &ReadyType);
    if (ready) ready->result = Py_NewRef(fiber->result);
    return reinterpret_cast<PyObject*>(ready);
}

PyMethodDef running_loop_functions[] = {
    {"set_running_loop", set_running_loop, METH_O,
     "set_running_loop(loop, /)\n--\n\nasyncio._set_running_loop() for the calling fiber."},
    {"keep_settings", keep_settings, METH_NOARGS,
     "keep_settings()\n--\n\nCalled before a loop sets the thread's hooks of asynchronous generators."},
    {"running_loop", running_loop, METH_NOARGS,
     "running_loop()\n--\n\nReturn the event loop that the calling fiber runs, or None."},
    {"loop_of_thread", loop_of_thread, METH_NOARGS,
     "loop_of_thread()\n--\n\nReturn an event loop that a fiber of the thread runs, the one begun last if it still "
     "runs; or None."},
    {"follow_running_loops", as_method(follow_running_loops), METH_FASTCALL,
     "follow_running_loops(get_of_thread, set_of_thread, until_ended, /)\n--\n\nGive asyncio's own "
     "_get_running_loop() and _set_running_loop(), and what Fiber.__await__ calls."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
