// SPDX-License-Identifier: MIT OR Apache-2.0
// The end of the interpreter, and the child of a fork.
#include "functions.h"
#include "waiting.h"

#include <stdio.h>
#include <unistd.h>

namespace fiberrt_python {

namespace {

// At exit: cancels all live fibers, so that their finally blocks run.
PyObject* shut_down(PyObject*, PyObject* seconds) {
    int64_t ns = nanoseconds(seconds);
    if (ns < 0) return nullptr;
    // A signal's handler has raised an exception, and the main flow has not waited since: this is the last call that
    // can raise it.
    bool of_handler = this_world && this_world->for_main && this_world->current->main_flow;
    size_t left = this_world ? world_drain(this_world, ns) : 0;
    report_failed();
    if (of_handler && raise_thrown()) return nullptr;
    return PyLong_FromSize_t(left);
}

// In the child of a fork: only the calling fiber is left.
PyObject* forked(PyObject*, PyObject*) {
    World* here = this_world;
    FiberObject* me = here ? here->current : nullptr;
    FiberList lost;
    {
        NoCollection all_in_order;
        forget_failed();
        PyErr_SetString(PyExc_RuntimeError, "the fiber was lost in a fork");
        PyObject* why = exception_take();
        // Worlds of other threads are not freed, because their threads have not ended regularly.
        for (World* world = all_worlds; world; world = world->next) {
            fibers_lose(world->live, me, lost, why);
            if (world != here) fiber_lose(world->main, lost, why);
        }
        all_worlds = here;
        if (here) {
            here->next = nullptr;
            here->live_count = here->live.first ? 1 : 0;
            if (!me->main_flow) {
                fiber_lose(here->main, lost, why);
                me->survivor = me->main_flow = true;
                here->main = new_reference(me);
            }
        }
        Py_DECREF(why);
    }
    fibers_lost(lost);
    Py_RETURN_NONE;
}

// As os.fork(), but the interpreter notices nothing: its locks, thread states and functions of os.register_at_fork() are
// for the child of a process with several threads, and take longer than the fork.
PyObject* fork_alone(PyObject*, PyObject*) {
    pid_t child = fork();
    return child < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(child);
}

} // namespace

PyMethodDef life_functions[] = {
    {"shut_down", shut_down, METH_O,
     "shut_down(seconds, /)\n--\n\nCancel this thread's other fibers, wait for them for at most that time, and print "
     "exceptions that the program has not seen. Return the number of fibers left."},
    {"forked", forked, METH_NOARGS, "forked()\n--\n\nFor os.register_at_fork."},
    {"fork_alone", fork_alone, METH_NOARGS,
     "fork_alone()\n--\n\nFork a process that has one thread, without calling the functions of os.register_at_fork(). "
     "Return 0 in the child, and the child's number in the parent."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
