// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns the results of waiting calls into Python results and exceptions.
#include "waiting.h"

#include <errno.h>
#include <math.h>

namespace fiberrt_python {

PyObject* cancelled_error;
bool polls_give_turns;

int64_t nanoseconds(PyObject* seconds) {
    if (!PyFloat_Check(seconds) && !PyIndex_Check(seconds)) {
        PyNumberMethods* number = Py_TYPE(seconds)->tp_as_number;
        if (!number || !number->nb_float) {
            PyErr_Format(PyExc_TypeError, "a time is a number of seconds, not %.200s", Py_TYPE(seconds)->tp_name);
            return -1;
        }
    }
    double value = PyFloat_AsDouble(seconds);
    if (value == -1.0 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return -1;
        PyErr_Clear();
        value = Py_SIZE(seconds) < 0 ? -1.0 : HUGE_VAL; // an int of hundreds of digits
        if (PyObject* zero = PyLong_FromLong(0)) {
            int negative = PyObject_RichCompareBool(seconds, zero, Py_LT);
            Py_DECREF(zero);
            if (negative < 0) return -1;
            value = negative ? -1.0 : HUGE_VAL;
        } else {
            return -1;
        }
    }
    if (!(value >= 0)) {
        PyErr_SetString(PyExc_ValueError, isnan(value) ? "a time is not a number" : "a time must not be negative");
        return -1;
    }
    value = ceil(value * 1e9);
    return value < 9.2e18 ? int64_t(value) : FIBER_FOREVER;
}

bool Timeout::parse_seconds(PyObject* seconds) {
    int64_t ns = nanoseconds(seconds);
    if (ns < 0) return false;
    set(ns);
    return true;
}

void raise_cancelled() { PyErr_SetString(cancelled_error, "the fiber, or a scope around the call, was cancelled"); }

bool has_thrown() {
    FiberObject* me = this_world->current;
    return (me->main_flow && this_world->for_main) || (me->thrown && PyList_GET_SIZE(me->thrown));
}

bool raise_thrown() {
    World* world = this_world;
    FiberObject* me = world->current;
    if (me->main_flow && world->for_main) {
        PyObject* exception = world->for_main;
        world->for_main = nullptr;
        exception_set(exception);
        return true;
    }
    if (!me->thrown || !PyList_GET_SIZE(me->thrown)) return false;
    PyObject* exception = Py_NewRef(PyList_GET_ITEM(me->thrown, 0));
    if (PyList_GET_SIZE(me->thrown) == 1) {
        Py_CLEAR(me->thrown);
    } else {
        PyList_SetSlice(me->thrown, 0, 1, nullptr);
        fiber_interrupt(me->handle, nullptr); // for the next exception
    }
    exception_set(exception);
    return true;
}

Settled settle_error(int64_t result, const Timeout* timeout) {
    switch (result) {
    case -ECANCELED: raise_cancelled(); return Settled::raised;
    case -EINTR: return raise_thrown() ? Settled::raised : Settled::again;
    case -ETIMEDOUT:
        if (timeout && timeout->passed()) return poll_turn() ? Settled::timed_out : Settled::raised;
        raise_cancelled(); // the timeout of a scope
        return Settled::raised;
    case -EPERM:
    case -EDEADLK: raise_errno(result); return Settled::raised;
    default: return Settled::failed;
    }
}

Settled settle_io_error(int64_t result, const Timeout* timeout) {
    if (result == -EPERM) return Settled::failed; // most likely from the system call
    if (result != -ETIMEDOUT || (timeout && timeout->passed())) return settle_error(result, timeout);
    static fiber_wg_t nobody; // waiting for it takes no time, and fails if a scope has expired
    int64_t own = fiber_wg_wait(&nobody);
    return own < 0 ? settle_error(own, timeout) : Settled::failed;
}

bool turn_is_long(World* world) {
    int64_t now = fiber_now();
    if (world->polled_turn == world->turns) return now - world->polled_ns >= FIBER_MSEC(1);
    world->polled_turn = world->turns;
    world->polled_ns = now;
    return false;
}

bool poll_turn_slowly() {
    World* here = this_world;
    if (!turn_is_long(here) || !in_own_frames(here)) return true; // a greenlet cannot wait
    here->turns++;
    WaitsFor reason("poll");
    int result = fiber_sleep(0);
    if (result == 0 || result == -EPERM) return true; // -EPERM: called during a switch
    return settle(result) != Settled::raised;
}

void raise_during_switch() {
    PyErr_SetString(PyExc_RuntimeError,
                    "a fiber cannot wait here: a finalizer, signal handler or hook that runs during a switch");
}

PyObject* on_refused;

PyObject* raise_errno(int64_t error) {
    if (error == -EDEADLK) {
        PyErr_SetString(PyExc_RuntimeError, "deadlock: nothing would ever end this wait");
        return nullptr;
    }
    if (error == -EPERM && fiber_noswitch_enter() == 0) { // no error: not in a no-switch section
        fiber_noswitch_leave();
        static fiber_wg_t nobody;
        if (fiber_wg_wait(&nobody) == -EPERM) {
            raise_during_switch();
            return nullptr;
        }
    }
    if (error == -ENOTSUP && on_refused) {
        PyObject* none = PyObject_CallNoArgs(on_refused);
        if (!none) return nullptr;
        Py_DECREF(none);
    }
    errno = int(-error);
    return PyErr_SetFromErrno(PyExc_OSError);
}

} // namespace fiberrt_python
