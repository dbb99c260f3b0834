// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens at the end of the interpreter and in the child of a fork.
#include "functions.h"
#include "waiting.h"

#include <stdio.h>

namespace fiberrt_python {

namespace {

// At exit: all that live are cancelled, so that what they have to do in the end is done.
PyObject* shut_down(PyObject*, PyObject* seconds) {
    int64_t ns = nanoseconds(seconds);
    if (ns < 0) return nullptr;
    size_t left = this_world ? world_drain(this_world, ns) : 0;
    report_failed();
    return PyLong_FromSize_t(left);
}

// In the child: of all fibers only the calling one is left.
PyObject* forked(PyObject*, PyObject*) {
    World* here = this_world;
    for (World* world = all_worlds; world; world = world->next) {
        FiberObject* me = world == here ? here->current : nullptr;
        for (FiberObject* fiber = world->live.first; fiber;) {
            FiberObject* next = fiber->next;
            if (fiber != me) fiber_lost(fiber);
            fiber = next;
        }
        if (world != here) world->main->done = true;
    }
    // Worlds of other threads are kept: they cannot be given back as if these had ended.
    if (here) {
        all_worlds = here;
        here->next = nullptr;
        if (!here->current->main_flow) {
            here->current->survivor = here->current->main_flow = true;
            here->main->done = true;
            here->main = new_reference(here->current);
        }
    } else {
        all_worlds = nullptr;
    }
    Py_RETURN_NONE;
}

} // namespace

PyMethodDef life_functions[] = {
    {"shut_down", shut_down, METH_O,
     "shut_down(seconds, /)\n--\n\nCancel this thread's other fibers, wait for them at most so long, and write about "
     "exceptions of which nobody has asked. How many fibers are left."},
    {"forked", forked, METH_NOARGS, "forked()\n--\n\nFor os.register_at_fork."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
