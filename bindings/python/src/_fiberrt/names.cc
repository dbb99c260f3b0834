// SPDX-License-Identifier: MIT OR Apache-2.0
#include "names.h"

#include "fiber.h"
#include "functions.h"
#include "times.h"
#include "traces.h"

#include <stdlib.h>
#include <string.h>

namespace fiberrt_python {

bool names_functions;

namespace {

// Functions of this package that call one of their arguments: a fiber that runs one is named after that argument.
constexpr int wrappers_most = 16;
struct Wrapper {
    PyObject* code;
    Py_ssize_t at;
} wrappers[wrappers_most];
int wrapper_count;

PyObject* calls_argument(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!takes("calls_argument", count, 2, 2)) return nullptr;
    if (!PyFunction_Check(args[0])) return PyErr_Format(PyExc_TypeError, "calls_argument() takes a function");
    Py_ssize_t at = PyLong_AsSsize_t(args[1]);
    if (at == -1 && PyErr_Occurred()) return nullptr;
    if (at < 0 || wrapper_count == wrappers_most) return PyErr_Format(PyExc_ValueError, "calls_argument() refuses it");
    wrappers[wrapper_count++] = {Py_NewRef(PyFunction_GET_CODE(args[0])), at};
    Py_RETURN_NONE;
}

PyObject* function_of(PyObject* callable) {
    return PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable;
}

// What a fiber calls, apart from this package's own functions: a borrowed reference.
PyObject* called_by(const FiberObject* fiber) {
    PyObject* function = function_of(fiber->function);
    if (!PyFunction_Check(function)) return fiber->function;
    for (int i = 0; i < wrapper_count; i++) {
        if (wrappers[i].code != PyFunction_GET_CODE(function)) continue;
        bool given = fiber->arguments && wrappers[i].at < PyTuple_GET_SIZE(fiber->arguments);
        PyObject* argument = given ? PyTuple_GET_ITEM(fiber->arguments, wrappers[i].at) : nullptr;
        return argument && PyCallable_Check(argument) ? argument : fiber->function;
    }
    return fiber->function;
}

// A new reference to the function of a functools.partial, or to the argument. It holds a reference to each object,
// because a class with that name may be another one.
PyObject* without_partial(PyObject* callable) {
    constexpr int most = 8;
    Py_INCREF(callable);
    for (int i = 0; i < most && !strcmp(Py_TYPE(callable)->tp_name, "functools.partial"); i++) {
        PyObject* function = PyObject_GetAttrString(callable, "func");
        if (!function) break;
        Py_SETREF(callable, function);
    }
    PyErr_Clear();
    return callable;
}

// The name of a callable, as UTF-8, which lives as long as the callable; or null with an exception set.
const char* name_of(PyObject* callable) {
    callable = function_of(callable);
    if (PyFunction_Check(callable))
        return PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(callable)->func_qualname);
    if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    PyTypeObject* type = PyType_Check(callable) ? reinterpret_cast<PyTypeObject*>(callable) : Py_TYPE(callable);
    return type->tp_name;
}

} // namespace

void put_end(char* to, size_t size, const char* text) {
    constexpr size_t dots = 3;
    size_t length = strlen(text);
    if (length >= size) {
        text += length - (size - 1 - dots);
        while ((*text & 0xC0) == 0x80) text++;
        memcpy(to, "...", dots);
        to += dots;
    }
    strcpy(to, text);
}

void name_after_function(FiberObject* fiber) {
    if (fiber->name) return;
    if (fiber->main_flow) {
        fiber_set_name(fiber->handle, "main");
        return;
    }
    if (!fiber->function) return;
    PyObject* callable = without_partial(called_by(fiber));
    if (const char* name = name_of(callable)) {
        char cut[FIBER_NAME_MAX];
        put_end(cut, sizeof cut, name);
        fiber_set_name(fiber->handle, cut);
    } else {
        PyErr_Clear(); // it has a surrogate
    }
    Py_DECREF(callable);
}

void names_begin() {
    names_functions = true;
    if (!this_world) return;
    name_after_function(this_world->main);
    for (FiberObject* fiber = this_world->live.first; fiber; fiber = fiber->next) name_after_function(fiber);
}

void names_end() { names_functions = keeps_times || trace_runs(); }

void names_begin_by_environment() {
    const char* accounting = secure_getenv("FIBERRT_ACCOUNTING");
    const char* trace = secure_getenv("FIBERRT_TRACE");
    keeps_times = accounting && !strcmp(accounting, "1");
    names_functions = keeps_times || (trace && *trace);
}

PyMethodDef name_functions[] = {
    {"calls_argument", as_method(calls_argument), METH_FASTCALL,
     "calls_argument(function, index, /)\n--\n\nName fibers that run this function of the package after the argument "
     "at "
     "this index, in the C library's traces and times."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
