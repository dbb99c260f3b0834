// SPDX-License-Identifier: MIT OR Apache-2.0
#include "traces.h"

#include "functions.h"
#include "names.h"
#include "waiting.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

namespace fiberrt_python {

bool traces_places;

namespace {

PyObject* trace_start(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!takes("trace_start", count, 3, 3) || !world()) return nullptr;
    fiber_trace_t options = {};
    PyObject* path = nullptr;
    if (PyLong_Check(args[0])) {
        options.fd = _PyLong_AsInt(args[0]);
        if (options.fd == -1 && PyErr_Occurred()) return nullptr;
    } else {
        if (!PyUnicode_FSConverter(args[0], &path)) return nullptr;
        options.path = PyBytes_AS_STRING(path);
    }
    unsigned long events = PyLong_AsUnsignedLong(args[1]);
    int places = PyObject_IsTrue(args[2]);
    int error = -EINVAL;
    bool failed = (events == static_cast<unsigned long>(-1) && PyErr_Occurred()) || places < 0;
    options.ring_events = events <= UINT32_MAX ? uint32_t(events) : UINT32_MAX;
    if (!failed) error = fiber_trace_start(&options, sizeof options);
    Py_XDECREF(path);
    if (failed) return nullptr;
    if (error == -ENOMEM) return PyErr_NoMemory();
    if (error == -EBUSY) {
        PyErr_SetString(PyExc_RuntimeError, "there is a trace already");
        return nullptr;
    }
    if (error == -EINVAL) {
        PyErr_SetString(PyExc_ValueError, "a trace has room for 64 to 16,777,216 events");
        return nullptr;
    }
    if (error < 0) return raise_errno(error);
    names_begin();
    traces_places = places;
    Py_RETURN_NONE;
}

PyObject* trace_stop(PyObject*, PyObject*) {
    traces_places = false;
    int error;
    Py_BEGIN_ALLOW_THREADS; // it waits for the file
    error = fiber_trace_stop();
    Py_END_ALLOW_THREADS;
    if (error == -ESRCH) {
        PyErr_SetString(PyExc_RuntimeError, "there is no trace");
        return nullptr;
    }
    return error < 0 ? raise_errno(error) : Py_NewRef(Py_None);
}

PyObject* trace_stats(PyObject*, PyObject*) {
    fiber_trace_stats_t stats;
    int error = fiber_trace_stats(&stats, sizeof stats);
    if (error < 0) return raise_errno(error);
    return Py_BuildValue("{sKsKsKsisN}", "events", static_cast<unsigned long long>(stats.events), "dropped",
                         static_cast<unsigned long long>(stats.dropped), "bytes",
                         static_cast<unsigned long long>(stats.bytes), "error", -stats.error, "running",
                         PyBool_FromLong(stats.running));
}

// Returns the name as UTF-8, or null with an exception set.
const char* name_of(PyObject* name, const char* function) {
    if (PyUnicode_Check(name)) return PyUnicode_AsUTF8(name);
    PyErr_Format(PyExc_TypeError, "%s() takes a str, not %.200s", function, Py_TYPE(name)->tp_name);
    return nullptr;
}

PyObject* trace_begin(PyObject*, PyObject* name) {
    const char* text = name_of(name, "trace_slice");
    if (!text || !world()) return nullptr;
    int error = fiber_trace_begin(text);
    return error < 0 ? raise_errno(error) : Py_NewRef(Py_None);
}

PyObject* trace_end(PyObject*, PyObject*) {
    int error = fiber_trace_end();
    return error < 0 ? raise_errno(error) : Py_NewRef(Py_None);
}

PyObject* trace_counter(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!takes("trace_counter", count, 2, 2)) return nullptr;
    const char* text = name_of(args[0], "trace_counter");
    if (!text) return nullptr;
    long long value = PyLong_AsLongLong(args[1]);
    if ((value == -1 && PyErr_Occurred()) || !world()) return nullptr;
    int error = fiber_trace_counter(text, value);
    return error < 0 ? raise_errno(error) : Py_NewRef(Py_None);
}

const char* text_of(PyObject* name) {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) PyErr_Clear(); // it has a surrogate
    return text ? text : "?";
}

} // namespace

void trace_place_begin() {
    PyFrameObject* frame = PyThreadState_GetFrame(this_world->state);
    char text[256] = "no Python code";
    if (frame) {
        PyCodeObject* code = PyFrame_GetCode(frame);
        const char* file = text_of(code->co_filename);
        const char* folder_ends = strrchr(file, '/');
        snprintf(text, sizeof text, "%s (%s:%d)", text_of(code->co_qualname), folder_ends ? folder_ends + 1 : file,
                 PyFrame_GetLineNumber(frame));
        Py_DECREF(code);
        Py_DECREF(frame);
    }
    fiber_trace_begin(text);
}

void trace_place_end() { fiber_trace_end(); }

PyMethodDef trace_functions[] = {
    {"trace_start", as_method(trace_start), METH_FASTCALL,
     "trace_start(path, ring_events, places, /)\n--\n\nStart a trace. path may be the number of a descriptor."},
    {"trace_stop", trace_stop, METH_NOARGS, "trace_stop()\n--\n\nStop the trace."},
    {"trace_stats", trace_stats, METH_NOARGS, "trace_stats()\n--\n\nReturn the figures of the present or last trace."},
    {"trace_begin", trace_begin, METH_O, "trace_begin(name, /)\n--\n\nBegin a slice of the calling fiber."},
    {"trace_end", trace_end, METH_NOARGS, "trace_end()\n--\n\nEnd the calling fiber's last slice."},
    {"trace_counter", as_method(trace_counter), METH_FASTCALL,
     "trace_counter(name, value, /)\n--\n\nNote the value that a counter of the program has from now on, in the trace, "
     "if "
     "there is one.\n\nname: a str; counters of one name are one, in all threads. value: an int, at most 64 bits, or "
     "OverflowError."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
