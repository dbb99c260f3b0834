// SPDX-License-Identifier: MIT OR Apache-2.0
// Functions that block, on threads of the core's.
#include "functions.h"
#include "waiting.h"

#include <errno.h>

namespace fiberrt_python {

namespace {

struct Call {
    PyObject* function;
    PyObject* const* args;
    size_t count;
    PyObject* names;
    PyObject* result;
    PyObject* exception;
};

int64_t call_there(void* argument) {
    auto* call = static_cast<Call*>(argument);
    PyGILState_STATE state = PyGILState_Ensure();
    call->result = PyObject_Vectorcall(call->function, call->args, call->count, call->names);
    if (!call->result) call->exception = exception_take();
    PyGILState_Release(state);
    return 0;
}

PyObject* offload(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    if (!world()) return nullptr;
    if (count < 1 || !PyCallable_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "offload() takes a function and its arguments");
    Call call = {args[0], args + 1, size_t(count - 1), names, nullptr, nullptr};
    WaitsFor reason("offload");
    for (;;) {
        int error = fiber_offload(call_there, &call, nullptr);
        switch (settle(error)) {
        case Settled::done:
            if (call.result) return call.result;
            exception_set(call.exception);
            return nullptr;
        case Settled::timed_out:
        case Settled::again: continue; // it has not begun
        case Settled::raised: return nullptr;
        case Settled::failed: return raise_errno(error);
        }
    }
}

} // namespace

PyMethodDef offload_functions[] = {
    {"offload", as_method(offload), METH_FASTCALL | METH_KEYWORDS,
     "offload(function, /, *args, **kwargs)\n--\n\nCall a function that blocks on another thread, wait for its end, and "
     "return what it returned or raise what it raised.\nOnce it has begun it is waited for, whatever happens: a cancel "
     "is seen by the next wait."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
