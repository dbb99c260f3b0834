// SPDX-License-Identifier: MIT OR Apache-2.0
// Accounting: for how long fibers and threads run and wait. Times are tuples of nanoseconds; fiberrt._times makes
// seconds of them.
#include "times.h"

#include "fiber.h"
#include "functions.h"
#include "names.h"
#include "waiting.h"

#include <errno.h>

namespace fiberrt_python {

bool keeps_times;

namespace {

PyObject* accounting(PyObject*, PyObject* on) {
    int truth = PyObject_IsTrue(on);
    if (truth < 0 || !world()) return nullptr;
    int error = truth ? fiber_accounting_start() : fiber_accounting_stop();
    if (error == -ENOMEM) return PyErr_NoMemory();
    if (error < 0 && error != -EALREADY) return raise_errno(error);
    if (truth) {
        keeps_times = true;
        names_begin();
    }
    Py_RETURN_NONE;
}

// (turns, run, runnable, wait of each kind...)
PyObject* tuple_of(const fiber_times_t& times) {
    PyObject* tuple = PyTuple_New(3 + FIBER_WAIT_KINDS);
    if (!tuple) return nullptr;
    auto put = [&](Py_ssize_t at, long long value) { PyTuple_SET_ITEM(tuple, at, PyLong_FromLongLong(value)); };
    put(0, static_cast<long long>(times.turns));
    put(1, times.run_ns);
    put(2, times.runnable_ns);
    for (int i = 0; i < FIBER_WAIT_KINDS; i++) put(3 + i, times.wait_ns[i]);
    for (Py_ssize_t i = 0; i < 3 + FIBER_WAIT_KINDS; i++) {
        if (PyTuple_GET_ITEM(tuple, i)) continue;
        Py_DECREF(tuple);
        return nullptr;
    }
    return tuple;
}

// Raises the error of a call that reads times.
PyObject* raise_no_times(int error) {
    if (error == -ENOMEM) return PyErr_NoMemory();
    if (error != -ENODATA) return raise_errno(error);
    PyErr_SetString(PyExc_RuntimeError, "accounting is off: call fiberrt.accounting(True) first");
    return nullptr;
}

PyObject* times(PyObject*, PyObject* object) {
    if (!Py_IS_TYPE(object, &FiberType))
        return PyErr_Format(PyExc_TypeError, "times() takes a Fiber, not %.200s", Py_TYPE(object)->tp_name);
    auto* fiber = reinterpret_cast<FiberObject*>(object);
    if (fiber->times) return tuple_of(*fiber->times);
    fiber_times_t times = {};
    int error = fiber->done ? -ESRCH : fiber_times(fiber->handle, &times, sizeof times);
    if (error == -ESRCH) {
        PyErr_SetString(PyExc_RuntimeError, "the fiber ended while accounting was off");
        return nullptr;
    }
    if (error < 0 && error != -EAGAIN) return raise_no_times(error); // -EAGAIN: not measured yet, so the times are zero
    return tuple_of(times);
}

PyObject* spread_of(const fiber_spread_t& spread) {
    return Py_BuildValue("(KLLLLL)", static_cast<unsigned long long>(spread.count), spread.p50_ns, spread.p90_ns,
                         spread.p99_ns, spread.p999_ns, spread.most_ns);
}

// (elapsed, run, poll, sleep, slice, lag, poll's spread) of the thread with this threading.get_ident(); None: the thread
// has no fibers.
PyObject* thread_times(PyObject*, PyObject* number) {
    unsigned long ident = PyLong_AsUnsignedLong(number);
    if (ident == static_cast<unsigned long>(-1) && PyErr_Occurred()) return nullptr;
    worlds_sweep();
    World* world = all_worlds;
    while (world && world->thread != ident) world = world->next;
    fiber_info_t info;
    if (!world || fiber_info(world->main->handle, &info, offsetof(fiber_info_t, parent_scope)) != 0) Py_RETURN_NONE;
    fiber_cord_times_t times = {};
    int error = fiber_cord_times({info.cord}, &times, sizeof times);
    if (error < 0 && error != -EAGAIN) return raise_no_times(error);
    return Py_BuildValue("(LLLLNNN)", times.elapsed_ns, times.run_ns, times.poll_ns, times.sleep_ns,
                         spread_of(times.slice), spread_of(times.lag), spread_of(times.poll));
}

int put_sum(const fiber_times_sum_t* sum, void* dict) {
    PyObject* name = sum->others ? Py_NewRef(Py_None) : PyUnicode_DecodeUTF8(sum->name, strlen(sum->name), "replace");
    PyObject* times = tuple_of(sum->times);
    PyObject* fibers = PyLong_FromUnsignedLongLong(sum->times.fibers);
    PyObject* value = name && times && fibers ? PyTuple_Pack(2, fibers, times) : nullptr;
    int error = value ? PyDict_SetItem(static_cast<PyObject*>(dict), name, value) : -1;
    Py_XDECREF(name);
    Py_XDECREF(times);
    Py_XDECREF(fibers);
    Py_XDECREF(value);
    return error < 0 ? 1 : 0;
}

PyObject* times_by_name(PyObject*, PyObject*) {
    PyObject* dict = PyDict_New();
    if (!dict) return nullptr;
    int error = fiber_times_each(FIBER_BY_NAME, put_sum, dict);
    if (error == 0) return dict;
    Py_DECREF(dict);
    return error > 0 ? nullptr : raise_no_times(error);
}

} // namespace

void times_keep(FiberObject* fiber) {
    fiber_times_t times;
    if (fiber_times(fiber->handle, &times, sizeof times) != 0) return;
    if (!fiber->times) fiber->times = static_cast<fiber_times_t*>(PyMem_Malloc(sizeof times));
    if (fiber->times) *fiber->times = times;
}

PyMethodDef times_functions[] = {
    {"accounting", accounting, METH_O, "accounting(on, /)\n--\n\nTurn accounting on or off."},
    {"times", times, METH_O,
     "times(fiber, /)\n--\n\nReturn (turns, run, runnable, wait of each kind...), in nanoseconds."},
    {"thread_times", thread_times, METH_O,
     "thread_times(ident, /)\n--\n\nReturn (elapsed, run, poll, sleep, slice, lag, poll) of a thread, in nanoseconds, "
     "or "
     "None if it has no fibers.\nThe last three are (count, p50, p90, p99, p999, longest)."},
    {"times_by_name", times_by_name, METH_NOARGS,
     "times_by_name()\n--\n\nReturn a dict from the names of fibers to (number of fibers, times). The name None is for "
     "fibers for which there was no room."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
