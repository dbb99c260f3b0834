// SPDX-License-Identifier: MIT OR Apache-2.0
// Accounting: for how long fibers and threads run and wait. Times are tuples of nanoseconds; fiberrt._times makes
// seconds of them.
#include "times.h"

#include "fiber.h"
#include "functions.h"
#include "names.h"
#include "waiting.h"

#include <errno.h>
#include <string.h>

namespace fiberrt_python {

bool keeps_times;

namespace {

PyObject* accounting(PyObject*, PyObject* on) {
    int truth = PyObject_IsTrue(on);
    if (truth < 0 || !world_here()) return nullptr;
    int error = truth ? fiber_accounting_start() : fiber_accounting_stop();
    if (error == -ENOMEM) return PyErr_NoMemory();
    if (error < 0 && error != -EALREADY) return raise_errno(error);
    keeps_times = truth;
    if (truth) {
        names_begin();
    } else {
        names_end();
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

// Raises the error of a call that reads times. Returns null.
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
        PyErr_SetString(PyExc_RuntimeError, "the fiber has no times: it ended while accounting was off, or was lost");
        return nullptr;
    }
    if (error < 0 && error != -EAGAIN) return raise_no_times(error); // -EAGAIN: not measured yet, so the times are zero
    return tuple_of(times);
}

PyObject* spread_of(const fiber_spread_t& spread) {
    return Py_BuildValue("(KLLLLL)", static_cast<unsigned long long>(spread.count), spread.p50_ns, spread.p90_ns,
                         spread.p99_ns, spread.p999_ns, spread.most_ns);
}

// (elapsed, run, poll, sleep, slice, lag, poll's spread) of the thread with this threading.get_ident(); None: the
// thread has no fibers.
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

int append_sum(const fiber_times_sum_t* sum, void* list) {
    PyObject* name =
        sum->others ? Py_NewRef(Py_None) : PyUnicode_DecodeUTF8(sum->name, Py_ssize_t(strlen(sum->name)), "replace");
    PyObject* each =
        Py_BuildValue("(NKN)", name, static_cast<unsigned long long>(sum->times.fibers), tuple_of(sum->times));
    int error = each ? PyList_Append(static_cast<PyObject*>(list), each) : -1;
    Py_XDECREF(each);
    return error < 0 ? 1 : 0;
}

PyObject* times_by_name(PyObject*, PyObject*) {
    PyObject* list = PyList_New(0);
    if (!list) return nullptr;
    int error = fiber_times_each(FIBER_BY_NAME, append_sum, list);
    if (error == 0) return list;
    Py_DECREF(list);
    return error > 0 ? nullptr : raise_no_times(error);
}

} // namespace

void times_keep(FiberObject* fiber) {
    fiber_times_t times = {};
    int error = fiber_times(fiber->handle, &times, sizeof times);
    if (error < 0 && error != -EAGAIN) return;
    if (!fiber->times) fiber->times = static_cast<fiber_times_t*>(PyMem_Malloc(sizeof times));
    if (fiber->times) *fiber->times = times;
}

PyMethodDef times_functions[] = {
    {"accounting", accounting, METH_O, "accounting(on, /)\n--\n\nTurn accounting on or off."},
    {"times", times, METH_O,
     "times(fiber, /)\n--\n\nReturn (turns, run, runnable, wait of each kind...), in nanoseconds."},
    {"thread_times", thread_times, METH_O,
     "thread_times(ident, /)\n--\n\nReturn (elapsed, run, poll, sleep, slice, lag, poll) of a thread, in nanoseconds, "
     "or None if it has no fibers.\nThe last three are (count, p50, p90, p99, p999, longest)."},
    {"times_by_name", times_by_name, METH_NOARGS,
     "times_by_name()\n--\n\nReturn a list of (name, number of fibers, times), the longest run time first. The name "
     "None is for fibers for which there was no room."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
