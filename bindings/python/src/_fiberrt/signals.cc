// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for blocked signals, for fiberrt.signal.
#include "functions.h"
#include "io.h"

#include <signal.h>
#include <sys/signalfd.h>

namespace fiberrt_python {

namespace {

bool add_all(PyObject* numbers, sigset_t* set) {
    sigemptyset(set);
    PyObject* iterator = PyObject_GetIter(numbers);
    if (!iterator) return false;
    while (PyObject* item = PyIter_Next(iterator)) {
        int number;
        bool good = flags_of(item, &number);
        Py_DECREF(item);
        if (good && sigaddset(set, number) < 0) {
            PyErr_Format(PyExc_ValueError, "signal number %d out of range", number);
            good = false;
        }
        if (!good) break;
    }
    Py_DECREF(iterator);
    return !PyErr_Occurred();
}

PyObject* sigwait(PyObject*, PyObject* const* args, Py_ssize_t count) {
    sigset_t set;
    Timeout timeout;
    if (!takes("sigwait", count, 1, 2) || !add_all(args[0], &set) || !world()) return nullptr;
    if (!timeout.parse(count > 1 ? args[1] : nullptr)) return nullptr;
    signalfd_siginfo info;
    if (perform("sigwait", timeout, [&] { return fiber_sigwait(&set, &info); }) < 0) return nullptr;
    return Py_BuildValue("iiiIIiI", int(info.ssi_signo), int(info.ssi_code), int(info.ssi_errno), info.ssi_pid,
                         info.ssi_uid, int(info.ssi_status), info.ssi_band);
}

} // namespace

PyMethodDef signal_functions[] = {
    {"sigwait", as_method(sigwait), METH_FASTCALL,
     "sigwait(signals, timeout=None, /)\n--\n\nWait for one of several blocked signals and take it; return its "
     "struct_siginfo's members. TimeoutError: no signal came in time."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
