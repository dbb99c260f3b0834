// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls blocking functions on threads of the core.
#include "functions.h"
#include "waiting.h"

#include <atomic>
#include <errno.h>

namespace fiberrt_python {

namespace {

// A function that a fiber has offloaded runs on this thread: one of the core's or, in a simulation, the only thread.
thread_local bool on_helper;

struct Call {
    PyObject* function;
    PyObject* const* args;
    size_t count;
    PyObject* names;
    PyObject* result;
    PyObject* exception;
};

// Calls a function with the GIL. Then drops the objects that it left in the thread, while finalizers can still wait.
template <typename Function>
void with_gil(Function function) {
    sleep_at_exit([&] {
        bool nested = on_helper;
        on_helper = true;
        bool fresh = !PyGILState_GetThisThreadState();
        PyGILState_STATE state = PyGILState_Ensure();
        function();
        if (fresh) thread_drop();
        PyGILState_Release(state);
        on_helper = nested;
    });
}

void perform_call(Call* call) {
    call->result = PyObject_Vectorcall(call->function, call->args, call->count, call->names);
    if (!call->result) call->exception = exception_take();
}

int64_t call_there(void* argument) {
    with_gil([=] { perform_call(static_cast<Call*>(argument)); });
    return 0;
}

// In the main flow, raises an exception that a signal's handler has raised meanwhile, because the next wait may be far.
// Returns true if an exception is set.
bool raise_of_handler() { return this_world->for_main && this_world->current->main_flow && raise_thrown(); }

// Calls the function directly, for finalizers at the end of the interpreter: on another thread it would wait for the
// GIL for ever.
PyObject* call_here(PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return PyObject_Vectorcall(args[0], args + 1, size_t(count - 1), names);
}

} // namespace

PyObject* offload(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    if (!world()) return nullptr;
    if (count < 1 || !PyCallable_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "offload() takes a function and its arguments");
    if (finalizing()) return call_here(args, count, names);
    Call call = {args[0], args + 1, size_t(count - 1), names, nullptr, nullptr};
    WaitsFor reason("offload");
    for (;;) {
        int error = fiber_offload(call_there, &call, nullptr);
        switch (settle(error)) {
        case Settled::done:
            if (raise_of_handler()) {
                Py_XDECREF(call.result);
                Py_XDECREF(call.exception);
                return nullptr;
            }
            if (call.result) return call.result;
            exception_set(call.exception);
            return nullptr;
        case Settled::timed_out:
        case Settled::again: continue; // the call has not begun
        case Settled::raised: return nullptr;
        case Settled::failed: return raise_errno(error);
        }
    }
}

PyObject* offload_shielded(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    World* here = world();
    if (!here) return nullptr;
    if (count < 1 || !PyCallable_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "offload_shielded() takes a function and its arguments");
    if (finalizing()) return call_here(args, count, names);
    Call call = {args[0], args + 1, size_t(count - 1), names, nullptr, nullptr};
    WaitsFor reason("offload");
    int error;
    {
        Shield shield;
        bool interrupted = false;
        while ((error = fiber_offload(call_there, &call, nullptr)) == -EINTR) interrupted = true; // it has not begun
        if (interrupted) fiber_interrupt(here->current->handle, nullptr);
    }
    if (error < 0) { // never -ECANCELED, except if there was no memory for the shield
        if (settle(error) == Settled::failed) raise_errno(error);
        return nullptr;
    }
    if (call.result) return call.result;
    exception_set(call.exception);
    return nullptr;
}

namespace {

// A call whose caller may leave before its end. The GIL guards the flags.
struct Detached {
    std::atomic<int> owners; // the caller, and the core until it has finished with the function
    bool finished;           // the call has ended: the caller drops the references
    bool abandoned;          // the caller has left: the function's thread drops them
    fiber_event_t over;
    Call call;
    PyObject* arguments; // a tuple; call.args points into it
};

void disown(void* argument) {
    auto* detached = static_cast<Detached*>(argument);
    if (detached->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) PyMem_RawFree(detached);
}

void drop_references(Detached* detached) {
    Py_CLEAR(detached->call.function);
    Py_CLEAR(detached->arguments);
    Py_CLEAR(detached->call.names);
    Py_CLEAR(detached->call.result);
    Py_CLEAR(detached->call.exception);
}

int64_t call_detached(void* argument) {
    with_gil([=] {
        auto* detached = static_cast<Detached*>(argument);
        if (!detached->abandoned) perform_call(&detached->call);
        if (detached->abandoned) {
            drop_references(detached);
        } else {
            detached->finished = true;
            fiber_event_set(&detached->over);
        }
    });
    return 0;
}

Detached* make_detached(PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* arguments = PyTuple_New(count - 1 + (names ? PyTuple_GET_SIZE(names) : 0));
    auto* detached = arguments ? static_cast<Detached*>(PyMem_RawCalloc(1, sizeof(Detached))) : nullptr;
    if (!detached) {
        Py_XDECREF(arguments);
        return reinterpret_cast<Detached*>(PyErr_NoMemory());
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); i++) PyTuple_SET_ITEM(arguments, i, Py_NewRef(args[i + 1]));
    fiber_event_init(&detached->over, FIBER_EVENT_MANUAL);
    detached->owners.store(1, std::memory_order_relaxed);
    detached->arguments = arguments;
    detached->call = {
        Py_NewRef(args[0]), &PyTuple_GET_ITEM(arguments, 0), size_t(count - 1), Py_XNewRef(names), nullptr, nullptr};
    return detached;
}

// Begins the call and waits for its end. Returns false with an exception set.
bool wait_for(Detached* detached) {
    for (bool begun = false;;) {
        int error;
        if (begun) {
            error = fiber_event_wait(&detached->over);
        } else {
            detached->owners.fetch_add(1, std::memory_order_relaxed);
            error = fiber_offload_detached(call_detached, detached, disown, nullptr);
        }
        switch (settle(error)) {
        case Settled::done: return true;
        case Settled::timed_out:
        case Settled::again: // after the call has begun, only wait for its end
            begun = detached->finished || detached->owners.load(std::memory_order_acquire) > 1;
            continue;
        case Settled::raised: return false;
        case Settled::failed: raise_errno(error); return false;
        }
    }
}

} // namespace

PyObject* offload_detached(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    if (!world()) return nullptr;
    if (count < 1 || !PyCallable_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "offload_detached() takes a function and its arguments");
    if (finalizing()) return call_here(args, count, names);
    Detached* detached = make_detached(args, count, names);
    if (!detached) return nullptr;
    WaitsFor reason("thread");
    PyObject* result = nullptr;
    if (wait_for(detached) && !raise_of_handler()) {
        result = detached->call.result;
        detached->call.result = nullptr;
        if (!result) {
            exception_set(detached->call.exception);
            detached->call.exception = nullptr;
        }
    }
    bool here = detached->finished || detached->owners.load(std::memory_order_acquire) == 1;
    detached->abandoned = !here;
    if (here) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        drop_references(detached);
        PyErr_Restore(type, value, traceback);
    }
    disown(detached);
    return result;
}

namespace {

PyObject* is_on_helper(PyObject*, PyObject*) { return PyBool_FromLong(on_helper); }

} // namespace

PyMethodDef offload_functions[] = {
    {"offload", as_method(offload), METH_FASTCALL | METH_KEYWORDS,
     "offload(function, /, *args, **kwargs)\n--\n\nCall a blocking function on another thread, wait for its end, and "
     "return its result or raise its exception.\nOnce the function has begun, the wait always lasts until its end; a "
     "cancel is raised by the next wait."},
    {"offload_shielded", as_method(offload_shielded), METH_FASTCALL | METH_KEYWORDS,
     "offload_shielded(function, /, *args, **kwargs)\n--\n\nLike offload(), but the function is called even if the "
     "caller has been cancelled or interrupted. The caller's next wait raises that."},
    {"offload_detached", as_method(offload_detached), METH_FASTCALL | METH_KEYWORDS,
     "offload_detached(function, /, *args, **kwargs)\n--\n\nLike offload(), but a cancel or a time limit ends the wait "
     "at once. The function then continues, and its result is lost."},
    {"on_helper", is_on_helper, METH_NOARGS,
     "on_helper()\n--\n\nWhether the caller runs on a thread that calls functions for offload(), not in a fiber's."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
