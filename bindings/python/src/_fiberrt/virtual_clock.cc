// SPDX-License-Identifier: MIT OR Apache-2.0
// The clocks of Python in a simulation, for fiberrt.testing: functions of time, datetime.datetime.now() and os.urandom()
// get other implementations, in their own function objects. So names that modules have imported change, too.
#include "functions.h"
#include "waiting.h"

#include <string.h>
#include <time.h>

namespace fiberrt_python {

namespace {

// The simulated machine's time of day begins 2,000,000,000 seconds after 1970, as for adopted libraries.
constexpr int64_t epoch_ns = FIBER_SEC(2'000'000'000);

int64_t first_now = -1;
uint64_t random_state; // of urandom()

int64_t day_ns() {
    int64_t now = fiber_now();
    if (first_now < 0) first_now = now;
    return epoch_ns + (now - first_now);
}

double seconds_of(int64_t ns) { return double(ns) * 1e-9; }

PyObject* now_float(PyObject*, PyObject*) { return PyFloat_FromDouble(seconds_of(fiber_now())); }
PyObject* now_ns(PyObject*, PyObject*) { return PyLong_FromLongLong(fiber_now()); }
PyObject* day_float(PyObject*, PyObject*) { return PyFloat_FromDouble(seconds_of(day_ns())); }
PyObject* day_int(PyObject*, PyObject*) { return PyLong_FromLongLong(day_ns()); }

// The implementations before.
PyCFunction first_gmtime, first_localtime, first_ctime, first_asctime, first_strftime;

// Calls gmtime(), localtime() or ctime() with the simulated time if the caller has given none.
PyObject* with_time(PyCFunction first, PyObject* self, PyObject* args) {
    if (PyTuple_GET_SIZE(args) > 0 && PyTuple_GET_ITEM(args, 0) != Py_None) return first(self, args);
    PyObject* own = Py_BuildValue("(d)", seconds_of(day_ns()));
    PyObject* result = own ? first(self, own) : nullptr;
    Py_XDECREF(own);
    return result;
}

PyObject* gmtime_now(PyObject* self, PyObject* args) { return with_time(first_gmtime, self, args); }
PyObject* localtime_now(PyObject* self, PyObject* args) { return with_time(first_localtime, self, args); }
PyObject* ctime_now(PyObject* self, PyObject* args) { return with_time(first_ctime, self, args); }

// Calls asctime() or strftime(): the argument at this place is a tuple of the local time, the simulated one if it is not
// given.
PyObject* with_tuple(PyCFunction first, PyObject* self, PyObject* args, Py_ssize_t place) {
    if (PyTuple_GET_SIZE(args) != place) return first(self, args);
    PyObject* none = PyTuple_New(0);
    PyObject* now = none ? localtime_now(self, none) : nullptr;
    PyObject* own = !now ? nullptr : place ? PyTuple_Pack(2, PyTuple_GET_ITEM(args, 0), now) : PyTuple_Pack(1, now);
    PyObject* result = own ? first(self, own) : nullptr;
    Py_XDECREF(own);
    Py_XDECREF(now);
    Py_XDECREF(none);
    return result;
}

PyObject* asctime_now(PyObject* self, PyObject* args) { return with_tuple(first_asctime, self, args, 0); }
PyObject* strftime_now(PyObject* self, PyObject* args) { return with_tuple(first_strftime, self, args, 1); }

PyObject* datetime_of(PyObject* type, const char* method, PyObject* zone) {
    double seconds = seconds_of(day_ns());
    return zone ? PyObject_CallMethod(type, method, "dO", seconds, zone)
                : PyObject_CallMethod(type, method, "d", seconds);
}

PyObject* datetime_now(PyObject* type, PyObject* args, PyObject* names) {
    static const char* keywords[] = {"tz", nullptr};
    PyObject* zone = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|O:now", const_cast<char**>(keywords), &zone)) return nullptr;
    return datetime_of(type, "fromtimestamp", zone);
}

PyObject* datetime_now_fast(PyObject* type, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* tuple = PyTuple_New(count);
    PyObject* dict = PyDict_New();
    PyObject* result = nullptr;
    if (!tuple || !dict) goto end;
    for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), args[count + i]) < 0) goto end;
    result = datetime_now(type, tuple, dict);
end:
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

PyObject* datetime_utcnow(PyObject* type, PyObject*) {
    time_t seconds = time_t(day_ns() / FIBER_SEC(1));
    tm parts;
    if (!gmtime_r(&seconds, &parts)) return PyErr_SetFromErrno(PyExc_OSError);
    return PyObject_CallFunction(type, "iiiiiii", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                                 parts.tm_min, parts.tm_sec, int(day_ns() / 1000 % 1'000'000));
}

// Bytes that the simulation's choices do not decide: the same in each run.
PyObject* urandom(PyObject*, PyObject* count) {
    Py_ssize_t size = PyNumber_AsSsize_t(count, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred()) return nullptr;
    if (size < 0) {
        PyErr_SetString(PyExc_ValueError, "negative argument not allowed");
        return nullptr;
    }
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, size);
    for (Py_ssize_t i = 0; bytes && i < size; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        PyBytes_AS_STRING(bytes)[i] = char(random_state >> 56);
    }
    return bytes;
}

// Gives a builtin function or a method of a builtin type another implementation, if it is called in the given way.
// Returns the former implementation; null if the object is another thing, or with an exception set.
PyCFunction replace(const char* module, const char* type, const char* name, PyCFunction by, int how) {
    PyObject* holder = PyImport_ImportModule(module);
    if (holder && type) Py_SETREF(holder, PyObject_GetAttrString(holder, type));
    PyObject* function = holder ? PyObject_GetAttrString(holder, name) : nullptr;
    Py_XDECREF(holder);
    PyCFunction before = nullptr;
    if (function && PyCFunction_Check(function)) {
        PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
        constexpr int ways = METH_VARARGS | METH_KEYWORDS | METH_NOARGS | METH_O | METH_FASTCALL;
        if ((method->ml_flags & ways) == how) {
            before = method->ml_meth;
            method->ml_meth = by;
        }
    }
    Py_XDECREF(function);
    return before;
}

PyObject* virtualize(PyObject*, PyObject*) {
    static bool done;
    random_state = 0;
    if (done) return PyList_New(0);
    PyObject* left = PyList_New(0); // names of functions that keep their implementation
    if (!left) return nullptr;
    auto put = [left](const char* module, const char* type, const char* name, PyCFunction by, int how) {
        PyCFunction before = replace(module, type, name, by, how);
        if (before || PyErr_Occurred()) return before;
        PyObject* text = PyUnicode_FromFormat("%s.%s%s%s", module, type ? type : "", type ? "." : "", name);
        if (text) PyList_Append(left, text);
        Py_XDECREF(text);
        return before;
    };
    for (const char* name : {"monotonic", "perf_counter", "thread_time", "process_time"})
        put("time", nullptr, name, now_float, METH_NOARGS);
    for (const char* name : {"monotonic_ns", "perf_counter_ns", "thread_time_ns", "process_time_ns"})
        put("time", nullptr, name, now_ns, METH_NOARGS);
    put("time", nullptr, "time", day_float, METH_NOARGS);
    put("time", nullptr, "time_ns", day_int, METH_NOARGS);
    first_gmtime = put("time", nullptr, "gmtime", gmtime_now, METH_VARARGS);
    first_localtime = put("time", nullptr, "localtime", localtime_now, METH_VARARGS);
    first_ctime = put("time", nullptr, "ctime", ctime_now, METH_VARARGS);
    first_asctime = put("time", nullptr, "asctime", asctime_now, METH_VARARGS);
    first_strftime = put("time", nullptr, "strftime", strftime_now, METH_VARARGS);
    if (!replace("datetime", "datetime", "now", as_method(datetime_now), METH_VARARGS | METH_KEYWORDS))
        put("datetime", "datetime", "now", as_method(datetime_now_fast), METH_FASTCALL | METH_KEYWORDS);
    put("datetime", "datetime", "utcnow", datetime_utcnow, METH_NOARGS);
    put("posix", nullptr, "urandom", urandom, METH_O);
    if (PyErr_Occurred()) {
        Py_DECREF(left);
        return nullptr;
    }
    done = true;
    return left;
}

} // namespace

PyMethodDef virtual_clock_functions[] = {
    {"virtualize", virtualize, METH_NOARGS,
     "virtualize()\n--\n\nMake time, datetime and os.urandom() of this process use the time of the simulation, and "
     "bytes "
     "that are the same in\neach run. Cannot be undone. A later call only lets the bytes begin again. Returns the "
     "names of functions that could not "
     "be\nreplaced."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
