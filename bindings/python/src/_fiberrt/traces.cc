// SPDX-License-Identifier: MIT OR Apache-2.0
#include "traces.h"

#include "frame_layout.h"
#include "functions.h"
#include "names.h"
#include "waiting.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

namespace fiberrt_python {

bool traces_places;

namespace {

constexpr unsigned long events_least = 64, events_most = 1ul << 24; // those of fiber_trace_t

// Opens the file without the GIL: a named pipe may have no reader yet. Returns the result of fiber_trace_start, or
// -EINTR with the exception of a signal's handler set.
int start_without_gil(const fiber_trace_t& options) {
    int error;
    do {
        Py_BEGIN_ALLOW_THREADS;
        error = fiber_trace_start(&options, sizeof options);
        Py_END_ALLOW_THREADS;
    } while (error == -EINTR && PyErr_CheckSignals() == 0);
    return error;
}

PyObject* trace_start(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!takes("trace_start", count, 3, 3) || !world_here()) return nullptr;
    unsigned long events = PyLong_AsUnsignedLong(args[1]);
    if (events == static_cast<unsigned long>(-1) && PyErr_Occurred()) return nullptr;
    if (events && (events < events_least || events > events_most))
        return PyErr_Format(PyExc_ValueError, "a trace has room for 64 to 16,777,216 events");
    int places = PyObject_IsTrue(args[2]);
    if (places < 0) return nullptr;
    fiber_trace_t options = {};
    options.ring_events = uint32_t(events);
    PyObject* path = nullptr;
    if (PyLong_Check(args[0])) {
        long fd = PyLong_AsLong(args[0]);
        if (fd == -1 && PyErr_Occurred()) return nullptr;
        options.fd = fd == int(fd) ? int(fd) : -1;
    } else {
        if (!PyUnicode_FSConverter(args[0], &path)) return nullptr;
        options.path = PyBytes_AS_STRING(path);
    }
    names_functions = true; // of fibers that other threads spawn meanwhile
    int error = start_without_gil(options);
    Py_XDECREF(path);
    if (error == 0) {
        traces_places = places;
        names_begin();
        Py_RETURN_NONE;
    }
    names_end();
    if (error == -EINTR) return nullptr;
    if (error == -ENOMEM) return PyErr_NoMemory();
    if (error != -EBUSY) return raise_errno(error);
    PyErr_SetString(PyExc_RuntimeError, "there is a trace already");
    return nullptr;
}

PyObject* trace_stop(PyObject*, PyObject*) {
    traces_places = false;
    int error;
    Py_BEGIN_ALLOW_THREADS; // it waits for the file
    error = fiber_trace_stop();
    Py_END_ALLOW_THREADS;
    names_end();
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
    if (!text || !world_here()) return nullptr;
    int error = fiber_trace_begin(text);
    return error < 0 ? raise_errno(error) : Py_NewRef(Py_None);
}

PyObject* trace_end(PyObject*, PyObject*) {
    if (this_world) fiber_trace_end();
    Py_RETURN_NONE;
}

PyObject* trace_counter(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!takes("trace_counter", count, 2, 2)) return nullptr;
    long long value = PyLong_AsLongLong(args[1]);
    if (value == -1 && PyErr_Occurred()) return nullptr;
    const char* text = name_of(args[0], "trace_counter");
    if (!text || !world_here()) return nullptr;
    int error = fiber_trace_counter(text, value);
    return error < 0 ? raise_errno(error) : Py_NewRef(Py_None);
}

const char* text_of(PyObject* name) {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) PyErr_Clear(); // it has a surrogate
    return text ? text : "?";
}

// Whether the frame is one of this package.
bool is_own(const InterpreterFrame& frame) {
    static PyObject* const key = PyUnicode_InternFromString("__name__");
    PyObject* name = key && frame.f_globals ? PyDict_GetItemWithError(frame.f_globals, key) : nullptr;
    if (!name) PyErr_Clear();
    const char* text = name && PyUnicode_Check(name) ? text_of(name) : "";
    constexpr char package[] = "fiberrt";
    constexpr size_t length = sizeof package - 1;
    return !strncmp(text, package, length) && (!text[length] || text[length] == '.');
}

const InterpreterFrame* shown(const InterpreterFrame* frame) {
    while (frame && !(has_code(*frame) && is_complete(*frame, code_of(*frame), *code_of(*frame))))
        frame = frame->previous;
    return frame;
}

// The innermost frame of the calling fiber, if possible outside this package; or null. The interpreter's own function
// would make an object for it, and could collect garbage before the wait.
const InterpreterFrame* innermost_frame() {
#if PY_VERSION_HEX < 0x030D0000
    const InterpreterFrame* frame = this_world->state->cframe->current_frame;
#else
    const InterpreterFrame* frame = this_world->state->current_frame;
#endif
    const InterpreterFrame* innermost = shown(frame);
    for (frame = innermost; frame && is_own(*frame);) frame = shown(frame->previous);
    return frame ? frame : innermost;
}

} // namespace

void trace_place_begin() {
    char text[256] = "no Python code";
    if (const InterpreterFrame* frame = innermost_frame()) {
        auto* code = const_cast<PyCodeObject*>(code_of(*frame));
        auto begin = reinterpret_cast<uintptr_t>(code) + offsetof(PyCodeObject, co_code_adaptive);
        const char* file = text_of(code->co_filename);
        const char* folder_ends = strrchr(file, '/');
        char function[128];
        char place[100];
        put_end(function, sizeof function, text_of(code->co_qualname));
        put_end(place, sizeof place, folder_ends ? folder_ends + 1 : file);
        snprintf(text, sizeof text, "%s (%s:%d)", function, place,
                 PyCode_Addr2Line(code, int(instruction_of(*frame) - begin)));
    }
    fiber_trace_begin(text);
}

void trace_place_end() { fiber_trace_end(); }

bool trace_runs() {
    fiber_trace_stats_t stats;
    return fiber_trace_stats(&stats, sizeof stats) == 0 && stats.running;
}

void traces_forked() {
    traces_places = false;
    names_end();
}

PyMethodDef trace_functions[] = {
    {"trace_start", as_method(trace_start), METH_FASTCALL,
     "trace_start(path, ring_events, places, /)\n--\n\nStart a trace. path may be the number of a descriptor."},
    {"trace_stop", trace_stop, METH_NOARGS, "trace_stop()\n--\n\nStop the trace."},
    {"trace_stats", trace_stats, METH_NOARGS, "trace_stats()\n--\n\nReturn the figures of the present or last trace."},
    {"trace_begin", trace_begin, METH_O, "trace_begin(name, /)\n--\n\nBegin a slice of the calling fiber."},
    {"trace_end", trace_end, METH_NOARGS, "trace_end()\n--\n\nEnd the calling fiber's last slice."},
    {"trace_counter", as_method(trace_counter), METH_FASTCALL,
     "trace_counter(name, value, /)\n--\n\nNote the value that a counter of the program has from now on, in the trace, "
     "if there is one.\n\nname: a str; counters of one name are one, in all threads. value: an int of at most 64 "
     "bits.\n"
     "TypeError: name is no str, or value no int. OverflowError: value has more bits. UnicodeEncodeError: name has a "
     "surrogate."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
