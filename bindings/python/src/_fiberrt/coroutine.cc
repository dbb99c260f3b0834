// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coroutine.h"

#include "fiber.h"
#include "functions.h"

#include <frameobject.h>
#include <string.h>

namespace fiberrt_python {

namespace {

CoroutineObject* coroutine_of(PyObject* self) { return reinterpret_cast<CoroutineObject*>(self); }
PyObject* object(CoroutineObject* coroutine) { return reinterpret_cast<PyObject*>(coroutine); }

// Freed objects, for the next ones.
constexpr int most_spare = 16;
CoroutineObject* spare[most_spare];
int spare_count;

// Whether the object is a generator that types.coroutine() has made awaitable.
bool is_generator_coroutine(PyObject* awaitable) {
    if (!PyGen_CheckExact(awaitable)) return false;
    PyObject* code = PyObject_GetAttrString(awaitable, "gi_code");
    bool result = code && PyCode_Check(code) && reinterpret_cast<PyCodeObject*>(code)->co_flags & CO_ITERABLE_COROUTINE;
    if (!code) PyErr_Clear();
    Py_XDECREF(code);
    return result;
}

// The iterator of an awaitable, as `await` finds it. Takes the reference.
PyObject* iterator_of(PyObject* awaitable) {
    if (!awaitable) return nullptr;
    if (PyCoro_CheckExact(awaitable) || is_generator_coroutine(awaitable)) return awaitable;
    PyAsyncMethods* methods = Py_TYPE(awaitable)->tp_as_async;
    PyObject* iterator = nullptr;
    if (methods && methods->am_await)
        iterator = methods->am_await(awaitable);
    else
        PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", Py_TYPE(awaitable)->tp_name);
    Py_DECREF(awaitable);
    if (iterator && (!PyIter_Check(iterator) || PyCoro_CheckExact(iterator))) {
        PyErr_Format(PyExc_TypeError, "__await__() returned %.100s, which is no iterator", Py_TYPE(iterator)->tp_name);
        Py_CLEAR(iterator);
    }
    return iterator;
}

PySendResult wait(CoroutineObject* coroutine, PyObject* awaitable, bool delegates) {
    coroutine->inner = iterator_of(awaitable);
    coroutine->delegates = delegates;
    return coroutine->inner ? PYGEN_NEXT : PYGEN_ERROR;
}

void end_wait(CoroutineObject* coroutine) {
    Py_CLEAR(coroutine->inner);
    if (coroutine->kind->waited) coroutine->kind->waited(coroutine);
}

void finish(CoroutineObject* coroutine) {
    coroutine->state = CoroutineState::over;
    Py_CLEAR(coroutine->argument);
}

PySendResult suspend(CoroutineObject* coroutine) {
    coroutine->state = CoroutineState::waits;
    return PYGEN_NEXT;
}

// The end by an exception, which is set. A StopIteration would look like a result: it becomes a RuntimeError (PEP 479).
void fail(CoroutineObject* coroutine) {
    finish(coroutine);
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return;
    PyObject* cause = exception_take();
    PyErr_SetString(PyExc_RuntimeError, "coroutine raised StopIteration");
    PyObject* error = exception_take();
    PyException_SetContext(error, Py_NewRef(cause));
    PyException_SetCause(error, cause);
    exception_set(error);
}

// Sets an exception unless the coroutine may be resumed.
bool may_run(CoroutineObject* coroutine) {
    if (coroutine->state == CoroutineState::over)
        PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
    else if (coroutine->state == CoroutineState::runs)
        PyErr_SetString(PyExc_ValueError, "coroutine already executing");
    else
        return true;
    return false;
}

// Goes on after the inner iterator has returned (PYGEN_RETURN), or at the beginning.
PySendResult run(CoroutineObject* coroutine, PyObject* value, PyObject** result) {
    for (;;) {
        if (coroutine->inner) {
            PySendResult sent = PyIter_Send(coroutine->inner, value, result);
            value = Py_None;
            if (sent == PYGEN_NEXT) return suspend(coroutine);
            bool delegates = coroutine->delegates;
            end_wait(coroutine);
            if (sent == PYGEN_ERROR) fail(coroutine);
            if (sent == PYGEN_RETURN && delegates) finish(coroutine);
            if (sent == PYGEN_ERROR || delegates) return sent;
            Py_DECREF(*result);
        }
        *result = nullptr;
        PySendResult done = coroutine->kind->step(coroutine, result);
        if (done == PYGEN_RETURN) finish(coroutine);
        if (done == PYGEN_ERROR) fail(coroutine);
        if (done != PYGEN_NEXT) return done;
        if (*result) return suspend(coroutine);
    }
}

PySendResult send_value(PyObject* self, PyObject* value, PyObject** result) {
    CoroutineObject* coroutine = coroutine_of(self);
    *result = nullptr;
    if (!may_run(coroutine)) return PYGEN_ERROR;
    if (coroutine->state == CoroutineState::fresh && value != Py_None) {
        PyErr_SetString(PyExc_TypeError, "can't send non-None value to a just-started coroutine");
        return PYGEN_ERROR;
    }
    coroutine->state = CoroutineState::runs;
    return run(coroutine, value, result);
}

// The result as an iterator gives it.
PyObject* as_iterator(PySendResult sent, PyObject* result) {
    if (sent != PYGEN_RETURN) return result;
    PyObject* end = PyObject_CallOneArg(PyExc_StopIteration, result);
    Py_DECREF(result);
    if (end) exception_set(end);
    return nullptr;
}

PyObject* send(PyObject* self, PyObject* value) {
    PyObject* result;
    PySendResult sent = send_value(self, value, &result);
    return as_iterator(sent, result);
}

PyObject* next(PyObject* self) { return send(self, Py_None); }

// Sets the exception that the arguments of throw() describe.
void set_thrown(PyObject* const* args, Py_ssize_t count) {
    PyObject* type = args[0];
    PyObject* exception = nullptr;
    PyObject* value = count > 1 && args[1] != Py_None ? args[1] : nullptr;
    int is_one = value && PyExceptionClass_Check(type) ? PyObject_IsInstance(value, type) : 0;
    if (is_one < 0) return;
    if (PyExceptionInstance_Check(type) && !value)
        exception = Py_NewRef(type);
    else if (PyExceptionClass_Check(type))
        exception = is_one ? Py_NewRef(value) : value ? PyObject_CallOneArg(type, value) : PyObject_CallNoArgs(type);
    else
        PyErr_SetString(PyExc_TypeError, "throw() takes an exception");
    if (exception && !PyExceptionInstance_Check(exception)) {
        Py_CLEAR(exception);
        PyErr_SetString(PyExc_TypeError, "throw() takes an exception");
    }
    if (exception && count > 2 && args[2] != Py_None && PyException_SetTraceback(exception, args[2]) < 0)
        Py_CLEAR(exception);
    if (exception) exception_set(exception);
}

// The method of an inner iterator, or null. Clears the AttributeError if there is none, as CPython does.
PyObject* method_of(PyObject* inner, const char* name) {
    PyObject* function = PyObject_GetAttrString(inner, name);
    if (!function && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
    return function;
}

PyObject* throw_in(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    CoroutineObject* coroutine = coroutine_of(self);
    if (!takes("throw", count, 1, 3) || !may_run(coroutine)) return nullptr;
    coroutine->state = CoroutineState::runs;
    PyObject* function = coroutine->inner ? method_of(coroutine->inner, "throw") : nullptr;
    bool inner_ends = false; // with a result, the value of StopIteration
    if (function) {
        PyObject* value = PyObject_Vectorcall(function, args, size_t(count), nullptr);
        Py_DECREF(function);
        if (value) {
            suspend(coroutine);
            return value;
        }
        inner_ends = PyErr_ExceptionMatches(PyExc_StopIteration);
    } else if (!PyErr_Occurred()) {
        set_thrown(args, count);
    }
    bool delegates = coroutine->delegates;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    end_wait(coroutine);
    if (!inner_ends || delegates) {
        PyErr_Restore(type, value, traceback);
        if (inner_ends)
            finish(coroutine);
        else
            fail(coroutine);
        return nullptr;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyObject* result;
    PySendResult sent = run(coroutine, Py_None, &result);
    return as_iterator(sent, result);
}

PyObject* close(PyObject* self, PyObject*) {
    CoroutineObject* coroutine = coroutine_of(self);
    if (coroutine->state == CoroutineState::over) Py_RETURN_NONE;
    if (!may_run(coroutine)) return nullptr;
    if (coroutine->inner) {
        coroutine->state = CoroutineState::runs;
        PyObject* function = method_of(coroutine->inner, "close");
        PyObject* result = function ? PyObject_CallNoArgs(function) : nullptr;
        Py_XDECREF(function);
        Py_XDECREF(result);
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (coroutine->state != CoroutineState::fresh) end_wait(coroutine);
    finish(coroutine);
    PyErr_Restore(type, value, traceback);
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    CoroutineObject* coroutine = coroutine_of(self);
    Py_VISIT(coroutine->owner);
    Py_VISIT(coroutine->argument);
    Py_VISIT(coroutine->inner);
    return 0;
}

void deallocate(PyObject* self) {
    CoroutineObject* coroutine = coroutine_of(self);
    PyObject_GC_UnTrack(self);
    if (coroutine->state != CoroutineState::over) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        if (coroutine->state == CoroutineState::waits)
            end_wait(coroutine);
        else if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "coroutine '%s' was never awaited", coroutine->kind->name))
            PyErr_WriteUnraisable(nullptr);
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(coroutine->inner);
    Py_XDECREF(coroutine->argument);
    Py_DECREF(coroutine->owner);
    if (spare_count < most_spare)
        spare[spare_count++] = coroutine;
    else
        PyObject_GC_Del(self);
}

PyObject* repr(PyObject* self) {
    return PyUnicode_FromFormat("<coroutine object %s at %p>", coroutine_of(self)->kind->name, self);
}

PyObject* get_qualified_name(PyObject* self, void*) { return PyUnicode_FromString(coroutine_of(self)->kind->name); }

PyObject* get_name(PyObject* self, void*) {
    const char* dot = strrchr(coroutine_of(self)->kind->name, '.');
    return PyUnicode_FromString(dot ? dot + 1 : coroutine_of(self)->kind->name);
}

PyObject* get_running(PyObject* self, void*) {
    return PyBool_FromLong(coroutine_of(self)->state == CoroutineState::runs);
}

PyObject* get_suspended(PyObject* self, void*) {
    return PyBool_FromLong(coroutine_of(self)->state == CoroutineState::waits);
}

PyObject* get_awaited(PyObject* self, void*) {
    PyObject* inner = coroutine_of(self)->inner;
    return Py_NewRef(inner ? inner : Py_None);
}

// Makes a frame without variables, for inspect and for Task.get_stack(). None: the coroutine is over.
PyObject* get_frame(PyObject* self, void*) {
    if (coroutine_of(self)->state == CoroutineState::over) Py_RETURN_NONE;
    PyCodeObject* code = PyCode_NewEmpty("fiberrt", coroutine_of(self)->kind->name, 1);
    PyObject* globals = code ? PyDict_New() : nullptr;
    PyFrameObject* frame = globals ? PyFrame_New(PyThreadState_Get(), code, globals, nullptr) : nullptr;
    Py_XDECREF(globals);
    Py_XDECREF(code);
    return reinterpret_cast<PyObject*>(frame);
}

PyMethodDef methods[] = {
    {"send", send, METH_O, "send($self, value, /)\n--\n\nStart the coroutine, or go on with it after a wait."},
    {"throw", as_method(throw_in), METH_FASTCALL,
     "throw($self, exception, value=None, traceback=None, /)\n--\n\nRaise an exception in the coroutine."},
    {"close", close, METH_NOARGS, "close($self, /)\n--\n\nEnd the coroutine."},
    {nullptr, nullptr, 0, nullptr},
};

// Without cr_code, the repr() of a task has the name and no line number.
PyGetSetDef properties[] = {
    {"__name__", get_name, nullptr, nullptr, nullptr},
    {"__qualname__", get_qualified_name, nullptr, nullptr, nullptr},
    {"cr_running", get_running, nullptr, nullptr, nullptr},
    {"cr_suspended", get_suspended, nullptr, nullptr, nullptr},
    {"cr_await", get_awaited, nullptr, nullptr, nullptr},
    {"cr_frame", get_frame, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyObject* await(PyObject* self) {
    if (coroutine_of(self)->state != CoroutineState::waits) return Py_NewRef(self);
    PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
    return nullptr;
}

PyAsyncMethods as_async = {await, nullptr, nullptr, send_value};

} // namespace

PyTypeObject CoroutineType = [] {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "fiberrt._fiberrt.Coroutine";
    type.tp_doc = "A coroutine written in C++.";
    type.tp_basicsize = sizeof(CoroutineObject);
    type.tp_dealloc = deallocate;
    type.tp_repr = repr;
    type.tp_as_async = &as_async;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    type.tp_traverse = traverse;
    type.tp_iter = PyObject_SelfIter;
    type.tp_iternext = next;
    type.tp_methods = methods;
    type.tp_getset = properties;
    return type;
}();

PyObject* coroutine_new(const CoroutineKind* kind, PyObject* owner, Py_ssize_t number, PyObject* argument) {
    CoroutineObject* coroutine;
    if (spare_count) {
        coroutine = spare[--spare_count];
        PyObject_Init(object(coroutine), &CoroutineType);
    } else if (!(coroutine = PyObject_GC_New(CoroutineObject, &CoroutineType))) {
        return nullptr;
    }
    coroutine->kind = kind;
    coroutine->owner = Py_NewRef(owner);
    coroutine->argument = Py_XNewRef(argument);
    coroutine->inner = nullptr;
    coroutine->number = number;
    coroutine->offset = 0;
    coroutine->state = CoroutineState::fresh;
    coroutine->delegates = false;
    coroutine->passed = 0;
    coroutine->waiter = nullptr;
    PyObject_GC_Track(object(coroutine));
    return object(coroutine);
}

PySendResult coroutine_wait(CoroutineObject* coroutine, PyObject* awaitable) {
    return wait(coroutine, awaitable, false);
}

PySendResult coroutine_delegate(CoroutineObject* coroutine, PyObject* awaitable) {
    return wait(coroutine, awaitable, true);
}

PySendResult coroutine_next_turn(PyObject** result) {
    *result = Py_NewRef(Py_None);
    return PYGEN_NEXT;
}

} // namespace fiberrt_python
