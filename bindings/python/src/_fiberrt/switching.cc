// SPDX-License-Identifier: MIT OR Apache-2.0
// Lets other fibers run: reschedule, sleep and park.
#include "functions.h"
#include "waiting.h"

namespace fiberrt_python {

namespace {

PyObject* reschedule(PyObject*, PyObject*) {
    World* here = world();
    if (!here) return nullptr;
    here->turns++;
    TracedPlace place;
    int result = fiber_reschedule();
    if (result == 0 && !(here->for_main && here->current->main_flow)) [[likely]]
        Py_RETURN_NONE;
    if (result == 0 && fiberrt_python::raise_thrown()) return nullptr; // thrown while the fiber was in the run queue
    switch (settle(result)) {
    case Settled::done:
    case Settled::timed_out:
    case Settled::again: Py_RETURN_NONE;
    case Settled::raised: return nullptr;
    case Settled::failed: break;
    }
    return raise_errno(result);
}

PyObject* sleep(PyObject*, PyObject* seconds) {
    World* here = world();
    if (!here) return nullptr;
    here->turns++;
    int64_t ns = nanoseconds(seconds);
    if (ns < 0) return nullptr;
    int64_t until = ns < FIBER_FOREVER - fiber_now() ? fiber_now() + ns : FIBER_FOREVER;
    WaitsFor reason("sleep");
    for (;;) {
        int result = fiber_sleep(ns);
        switch (settle(result)) {
        case Settled::done:
        case Settled::timed_out: Py_RETURN_NONE;
        case Settled::again: {
            int64_t left = until == FIBER_FOREVER ? FIBER_FOREVER : until - fiber_now();
            ns = left > 0 ? left : 0;
            continue;
        }
        case Settled::raised: return nullptr;
        case Settled::failed: return raise_errno(result);
        }
    }
}

PyObject* park(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!world() || !takes("park", count, 0, 1)) return nullptr;
    Timeout timeout;
    if (!timeout.parse(count > 0 ? args[0] : nullptr)) return nullptr;
    WaitsFor reason("park");
    for (;;) {
        int result = timeout.for_ever() ? fiber_yield() : fiber_yield_timeout(timeout.left_ns());
        switch (settle(result, &timeout)) {
        case Settled::done: Py_RETURN_TRUE;
        case Settled::timed_out: Py_RETURN_FALSE;
        case Settled::again: continue;
        case Settled::raised: return nullptr;
        case Settled::failed: return raise_errno(result);
        }
    }
}

PyObject* poll_turn(PyObject*, PyObject*) {
    if (!fiberrt_python::poll_turn()) return nullptr;
    Py_RETURN_NONE;
}

PyObject* raise_thrown(PyObject*, PyObject*) {
    if (this_world && fiberrt_python::raise_thrown()) return nullptr;
    Py_RETURN_NONE;
}

PyObject* let_polls_give_turns(PyObject*, PyObject*) {
    polls_give_turns = true;
    Py_RETURN_NONE;
}

} // namespace

PyMethodDef switching_functions[] = {
    {"reschedule", reschedule, METH_NOARGS, "reschedule()\n--\n\nLet every fiber that is runnable now have a turn."},
    {"sleep", sleep, METH_O,
     "sleep(seconds, /)\n--\n\nWait for at least that time; other fibers run. sleep(0) also checks for I/O once."},
    {"park", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(park)), METH_FASTCALL,
     "park(timeout=None, /)\n--\n\nWait until this fiber's wakeup() is called, and return True; return False if the "
     "timeout, in seconds, passes first.\nOne earlier wakeup() is remembered; park() then returns at once."},
    {"poll_turn", poll_turn, METH_NOARGS,
     "poll_turn()\n--\n\nCalled by polls, functions that check for something without waiting. If this fiber has polled "
     "for 1 ms\nwithout a wait, the thread's other fibers run once. Has no effect before let_polls_give_turns()."},
    {"raise_thrown", raise_thrown, METH_NOARGS,
     "raise_thrown()\n--\n\nRaise an exception thrown into this fiber. For functions that count as waits even if they "
     "do not have to wait."},
    {"let_polls_give_turns", let_polls_give_turns, METH_NOARGS,
     "let_polls_give_turns()\n--\n\nFrom now on poll_turn() has an effect, in the whole process."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
