// SPDX-License-Identifier: MIT OR Apache-2.0
// The clocks of Python in a simulation, for fiberrt.testing: functions of time, datetime.datetime.now(), os.urandom(),
// os.getrandom() and the C part of uuid1() get other implementations, in their own function objects. So names that modules
// have imported change, too.
#include "functions.h"
#include "waiting.h"

#include <string.h>
#include <time.h>

namespace fiberrt_python {

namespace {

// The simulated machine's time of day begins 2,000,000,000 seconds after 1970, as for adopted libraries.
constexpr int64_t epoch_ns = FIBER_SEC(2'000'000'000);

// uuid1() counts units of 100 ns from 1582.
constexpr uint64_t uuid_units_before_1970 = 0x01b21dd213814000;

int64_t first_now = -1;
uint64_t random_state;   // of urandom()
uint64_t last_uuid_time; // of uuid1()

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
PyCFunction first_clock, first_clock_ns;
bool clock_takes_tuple; // the arguments of clock_gettime(): a tuple, or one object

// Returns the time of the clock that clock_gettime() is asked for; -1 if the clock has no simulated time.
int64_t clock_of(PyObject* args) {
    if (clock_takes_tuple) args = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : Py_None;
    if (!PyLong_Check(args)) return -1;
    switch (PyLong_AsLong(args)) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI: return day_ns();
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_PROCESS_CPUTIME_ID:
    case CLOCK_THREAD_CPUTIME_ID: return fiber_now();
    default: PyErr_Clear(); return -1; // of PyLong_AsLong(), for a number out of range
    }
}

PyObject* clock_now(PyObject* self, PyObject* args) {
    int64_t ns = clock_of(args);
    return ns < 0 ? first_clock(self, args) : PyFloat_FromDouble(seconds_of(ns));
}

PyObject* clock_now_ns(PyObject* self, PyObject* args) {
    int64_t ns = clock_of(args);
    return ns < 0 ? first_clock_ns(self, args) : PyLong_FromLongLong(ns);
}

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

// Calls an implementation that takes a tuple and a dict.
PyObject* with_tuple_and_dict(PyCFunctionWithKeywords call, PyObject* self, PyObject* const* args, Py_ssize_t count,
                              PyObject* names) {
    PyObject* tuple = PyTuple_New(count);
    PyObject* dict = PyDict_New();
    PyObject* result = nullptr;
    if (!tuple || !dict) goto end;
    for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), args[count + i]) < 0) goto end;
    result = call(self, tuple, dict);
end:
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

PyObject* datetime_now_fast(PyObject* type, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return with_tuple_and_dict(datetime_now, type, args, count, names);
}

PyObject* datetime_utcnow(PyObject* type, PyObject*) {
    time_t seconds = time_t(day_ns() / FIBER_SEC(1));
    tm parts;
    if (!gmtime_r(&seconds, &parts)) return PyErr_SetFromErrno(PyExc_OSError);
    return PyObject_CallFunction(type, "iiiiiii", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                                 parts.tm_min, parts.tm_sec, int(day_ns() / 1000 % 1'000'000));
}

// Bytes that the simulation's choices do not decide: the same in each run.
PyObject* random_bytes(Py_ssize_t size) {
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

PyObject* urandom(PyObject*, PyObject* count) {
    Py_ssize_t size = PyNumber_AsSsize_t(count, PyExc_OverflowError);
    return size == -1 && PyErr_Occurred() ? nullptr : random_bytes(size);
}

PyObject* getrandom(PyObject*, PyObject* args, PyObject* names) {
    static const char* keywords[] = {"size", "flags", nullptr};
    Py_ssize_t size;
    int flags = 0;
    if (!PyArg_ParseTupleAndKeywords(args, names, "n|i:getrandom", const_cast<char**>(keywords), &size, &flags))
        return nullptr;
    return random_bytes(size);
}

PyObject* getrandom_fast(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return with_tuple_and_dict(getrandom, self, args, count, names);
}

// Returns the bytes of a UUID of version 1, of the simulated time and a fixed machine, and None, as libuuid does if it
// does not ask its daemon.
PyObject* uuid1_bytes(PyObject*, PyObject*) {
    uint64_t time = uint64_t(day_ns()) / 100 + uuid_units_before_1970;
    if (time <= last_uuid_time) time = last_uuid_time + 1;
    last_uuid_time = time;
    const unsigned char parts[16] = {
        static_cast<unsigned char>(time >> 24),
        static_cast<unsigned char>(time >> 16),
        static_cast<unsigned char>(time >> 8),
        static_cast<unsigned char>(time),
        static_cast<unsigned char>(time >> 40),
        static_cast<unsigned char>(time >> 32),
        static_cast<unsigned char>(0x10 | (time >> 56 & 0xf)),
        static_cast<unsigned char>(time >> 48),
        0x80, // the variant, and a clock sequence of 0
        0,
        2, // a local address
        0,
        0,
        0,
        0,
        1,
    };
    PyObject* bytes = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(parts), sizeof parts);
    PyObject* result = bytes ? PyTuple_Pack(2, bytes, Py_None) : nullptr;
    Py_XDECREF(bytes);
    return result;
}

PyMethodDef* method_of(PyObject* function) {
    return PyCFunction_Check(function) ? reinterpret_cast<PyCFunctionObject*>(function)->m_ml : nullptr;
}

PyObject* replace_sleep(PyObject* module, PyObject* function) {
    PyObject* own = PyObject_GetAttrString(module, "sleep");
    if (!own) return nullptr;
    PyMethodDef* before = method_of(function);
    PyMethodDef* by = method_of(own);
    Py_DECREF(own);
    if (!before || !by || before->ml_flags != by->ml_flags) {
        PyErr_SetString(PyExc_TypeError, "only a builtin function of one argument can be replaced");
        return nullptr;
    }
    before->ml_meth = by->ml_meth;
    Py_RETURN_NONE;
}

PyObject* real_now(PyObject*, PyObject*) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return PyFloat_FromDouble(double(now.tv_sec) + double(now.tv_nsec) * 1e-9);
}

// Whether the interpreter has a module.
bool has_module(const char* name) {
    PyObject* module = PyImport_ImportModule(name);
    if (!module) PyErr_Clear();
    Py_XDECREF(module);
    return module != nullptr;
}

// Gives a builtin function or a method of a builtin type another implementation, if it is called in the given way.
// Returns the former implementation; null if the object is another thing, or with an exception set.
PyCFunction replace(const char* module, const char* type, const char* name, PyCFunction by, int how) {
    PyObject* holder = PyImport_ImportModule(module);
    if (holder && type) Py_SETREF(holder, PyObject_GetAttrString(holder, type));
    PyObject* function = holder ? PyObject_GetAttrString(holder, name) : nullptr;
    Py_XDECREF(holder);
    PyCFunction before = nullptr;
    if (PyMethodDef* method = function ? method_of(function) : nullptr) {
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
    random_state = last_uuid_time = 0;
    first_now = -1;
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
    first_clock = replace("time", nullptr, "clock_gettime", clock_now, METH_VARARGS);
    clock_takes_tuple = first_clock != nullptr;
    int how = clock_takes_tuple ? METH_VARARGS : METH_O;
    if (!first_clock) first_clock = put("time", nullptr, "clock_gettime", clock_now, how);
    first_clock_ns = put("time", nullptr, "clock_gettime_ns", clock_now_ns, how);
    put("posix", nullptr, "urandom", urandom, METH_O);
    put("posix", nullptr, "getrandom", as_method(getrandom_fast), METH_FASTCALL | METH_KEYWORDS);
    if (has_module("_uuid")) put("_uuid", nullptr, "generate_time_safe", uuid1_bytes, METH_NOARGS);
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
     "virtualize()\n--\n\nMake time, datetime, uuid1(), os.urandom() and os.getrandom() of this process use the time "
     "of "
     "the simulation, and\nbytes that are the same in each run. Cannot be undone. A later call only lets the time and "
     "the "
     "bytes begin again.\nReturns the names of functions that could not be replaced."},
    {"replace_sleep", replace_sleep, METH_O,
     "replace_sleep(function, /)\n--\n\nGive a builtin function, which is the time.sleep() of before, the "
     "implementation of "
     "sleep(). Default arguments of\nfunctions refer to it. Cannot be undone."},
    {"real_now", real_now, METH_NOARGS,
     "real_now()\n--\n\nReturn the real time of the monotonic clock, in seconds, also in a simulation."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
