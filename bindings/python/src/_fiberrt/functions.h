// SPDX-License-Identifier: MIT OR Apache-2.0
// The tables of the module's functions, one for each file, and helpers that all of them use.
#pragma once

#include <Python.h>

namespace fiberrt_python {

extern PyMethodDef fiber_functions[];
extern PyMethodDef io_functions[];
extern PyMethodDef life_functions[];
extern PyMethodDef mount_functions[];
extern PyMethodDef name_functions[];
extern PyMethodDef native_functions[];
extern PyMethodDef offload_functions[];
extern PyMethodDef preemption_functions[];
extern PyMethodDef running_loop_functions[];
extern PyMethodDef scope_functions[];
extern PyMethodDef sight_functions[];
extern PyMethodDef signal_functions[];
extern PyMethodDef socket_functions[];
extern PyMethodDef switching_functions[];
extern PyMethodDef times_functions[];
extern PyMethodDef trace_functions[];
extern PyMethodDef transport_functions[];
extern PyMethodDef virtual_clock_functions[];

// Adds the functions that never wait, by pybind11.
int settings_add(PyObject* module);

// The module's functions of these names.
PyObject* offload(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* offload_shielded(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names);
PyObject* offload_detached(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names);

// Whether the number of arguments is allowed; sets TypeError if not.
inline bool takes(const char* name, Py_ssize_t count, Py_ssize_t least, Py_ssize_t most) {
    if (count >= least && count <= most) return true;
    PyErr_Format(PyExc_TypeError, "%s() takes from %zd to %zd positional arguments but %zd were given", name, least,
                 most, count);
    return false;
}

template <typename Function>
constexpr PyCFunction as_method(Function* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

} // namespace fiberrt_python
