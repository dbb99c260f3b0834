// SPDX-License-Identifier: MIT OR Apache-2.0
// Parses the arguments of METH_FASTCALL | METH_KEYWORDS methods.
#pragma once

#include <Python.h>

#include <stddef.h>

namespace fiberrt_python {

// Stores the given arguments in `to`, with null for the others. Returns false with TypeError set.
template <size_t most>
bool take_arguments(const char* function, PyObject* const* args, Py_ssize_t count, PyObject* names,
                    const char* const (&known)[most], PyObject* (&to)[most], size_t least = 0) {
    if (size_t(count) > most) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %zu arguments (%zd given)", function, most, count);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) to[i] = args[i];
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++) {
        PyObject* name = PyTuple_GET_ITEM(names, i);
        size_t at = 0;
        while (at < most && PyUnicode_CompareWithASCIIString(name, known[at]) != 0) at++;
        if (at == most || to[at]) {
            PyErr_Format(PyExc_TypeError,
                         at == most ? "%s() got an unexpected keyword argument '%U'"
                                    : "%s() got multiple values for argument '%U'",
                         function, name);
            return false;
        }
        to[at] = args[count + i];
    }
    for (size_t i = 0; i < least; i++) {
        if (to[i]) continue;
        PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", function, known[i]);
        return false;
    }
    return true;
}

} // namespace fiberrt_python
