// SPDX-License-Identifier: MIT OR Apache-2.0
// The handles that an event loop's call_soon() and call_later() return, like asyncio.Handle and asyncio.TimerHandle.
#include "loop.h"

#include <stddef.h>
#include <structmember.h>

namespace fiberrt_python {

namespace {

HandleObject* handle_of(PyObject* self) { return reinterpret_cast<HandleObject*>(self); }
PyObject* loop_of(HandleObject* handle) { return reinterpret_cast<PyObject*>(handle->loop); }

// Freed objects, for the next ones.
constexpr int most_spare = 64;
HandleObject* spare[most_spare];
int spare_count;

int traverse(PyObject* self, visitproc visit, void* arg) {
    HandleObject* handle = handle_of(self);
    Py_VISIT(loop_of(handle));
    Py_VISIT(handle->callback);
    Py_VISIT(handle->argument);
    Py_VISIT(handle->arguments);
    Py_VISIT(handle->context);
    return 0;
}

void drop_call(HandleObject* handle) {
    Py_CLEAR(handle->callback);
    Py_CLEAR(handle->argument);
    Py_CLEAR(handle->arguments);
}

int clear(PyObject* self) {
    HandleObject* handle = handle_of(self);
    handle->cancelled = true; // for a loop that still has it
    drop_call(handle);
    Py_CLEAR(handle->context);
    return 0;
}

void deallocate(PyObject* self) {
    HandleObject* handle = handle_of(self);
    PyObject_GC_UnTrack(self);
    if (handle->weak_references) PyObject_ClearWeakRefs(self);
    Py_TRASHCAN_BEGIN(self, deallocate);
    clear(self);
    PyObject* loop = loop_of(handle);
    handle->loop = nullptr;
    Py_XDECREF(loop);
    if (spare_count < most_spare)
        spare[spare_count++] = handle;
    else
        PyObject_GC_Del(self);
    Py_TRASHCAN_END;
}

PyObject* cancel(PyObject* self, PyObject*) {
    HandleObject* handle = handle_of(self);
    if (handle->cancelled) Py_RETURN_NONE;
    handle->cancelled = true;
    bool queued = handle->place != 0;
    if (queued) handle->loop->timers.remove(handle);
    drop_call(handle);
    if (queued) Py_DECREF(self);
    Py_RETURN_NONE;
}

PyObject* cancelled(PyObject* self, PyObject*) { return PyBool_FromLong(handle_of(self)->cancelled); }
PyObject* when(PyObject* self, PyObject*) { return PyFloat_FromDouble(handle_of(self)->when); }
PyObject* get_context(PyObject* self, PyObject*) {
    PyObject* context = handle_of(self)->context;
    return Py_NewRef(context ? context : Py_None);
}

PyObject* repr(PyObject* self) {
    PyObject* module = PyImport_ImportModule("fiberrt.aio");
    PyObject* text = module ? PyObject_CallMethod(module, "_repr_of_handle", "O", self) : nullptr;
    Py_XDECREF(module);
    return text;
}

PyMethodDef methods[] = {
    {"cancel", cancel, METH_NOARGS, "cancel($self, /)\n--\n\nKeep the callback from being called."},
    {"cancelled", cancelled, METH_NOARGS, "cancelled($self, /)\n--\n\nWhether cancel() has been called."},
    {"get_context", get_context, METH_NOARGS, "get_context($self, /)\n--\n\nThe context of the callback."},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef timer_methods[] = {
    {"when", when, METH_NOARGS, "when($self, /)\n--\n\nThe time of the call, in seconds of loop.time()."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"_callback", T_OBJECT, offsetof(HandleObject, callback), READONLY, nullptr},
    {"_context", T_OBJECT, offsetof(HandleObject, context), READONLY, nullptr},
    {"_loop", T_OBJECT, offsetof(HandleObject, loop), READONLY, nullptr},
    {"_cancelled", T_BOOL, offsetof(HandleObject, cancelled), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyObject* get_none(PyObject*, void*) { Py_RETURN_NONE; }

PyObject* get_arguments(PyObject* self, void*) {
    HandleObject* handle = handle_of(self);
    if (handle->argument) return PyTuple_Pack(1, handle->argument);
    return Py_NewRef(handle->arguments ? handle->arguments : Py_None);
}

PyGetSetDef properties[] = {
    {"_args", get_arguments, nullptr, nullptr, nullptr},
    {"_source_traceback", get_none, nullptr, nullptr, nullptr}, // of debug mode, where asyncio's handles are used
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject handle_type(const char* name, const char* doc, PyMethodDef* own_methods, PyTypeObject* base) {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = name;
    type.tp_basicsize = sizeof(HandleObject);
    type.tp_base = base;
    type.tp_dealloc = deallocate;
    type.tp_repr = repr;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    if (!base) type.tp_flags |= Py_TPFLAGS_BASETYPE;
    type.tp_doc = doc;
    type.tp_traverse = traverse;
    type.tp_clear = clear;
    type.tp_weaklistoffset = offsetof(HandleObject, weak_references);
    type.tp_methods = own_methods;
    if (!base) {
        type.tp_members = members;
        type.tp_getset = properties;
    }
    return type;
}

} // namespace

PyTypeObject HandleType =
    handle_type("fiberrt._fiberrt.Handle", "A callback that an event loop will call.", methods, nullptr);
PyTypeObject TimerHandleType = handle_type(
    "fiberrt._fiberrt.TimerHandle", "A callback that an event loop will call at a time.", timer_methods, &HandleType);

HandleObject* handle_new(PyTypeObject* type, LoopObject* loop, PyObject* callback, PyObject* context) {
    HandleObject* handle;
    if (spare_count) {
        handle = spare[--spare_count];
        PyObject_Init(reinterpret_cast<PyObject*>(handle), type);
    } else if (!(handle = PyObject_GC_New(HandleObject, type))) {
        Py_DECREF(context);
        return nullptr;
    }
    handle->loop = loop;
    Py_INCREF(loop_of(handle));
    handle->callback = Py_NewRef(callback);
    handle->argument = nullptr;
    handle->arguments = nullptr;
    handle->context = context;
    handle->weak_references = nullptr;
    handle->when = 0;
    handle->number = 0;
    handle->place = 0;
    handle->cancelled = false;
    PyObject_GC_Track(reinterpret_cast<PyObject*>(handle));
    return handle;
}

} // namespace fiberrt_python
