// SPDX-License-Identifier: MIT OR Apache-2.0
// The end of the interpreter, and the child of a fork.
#include "functions.h"
#include "waiting.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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
    traces_forked();
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

// A request to serve_forks(), and its answer: 8 bytes each.
bool receive(int fd, int64_t* number) {
    ssize_t count;
    do count = read(fd, number, sizeof *number);
    while (count < 0 && errno == EINTR);
    return count == sizeof *number;
}

// Lets the kernel end this process if its parent ends.
void end_with_parent(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); // the parent has ended before
}

// Forks and waits for another process, which sends requests. Nothing is allocated here, so each child begins with the
// same memory: addresses, and orders that depend on them, are the same. os.fork() would also call the functions of
// os.register_at_fork(), and prepare the interpreter for the child of a process with several threads. Both take longer
// than the fork.
PyObject* serve_forks(PyObject*, PyObject* args) {
    int requests;
    int answers;
    int places;
    if (!PyArg_ParseTuple(args, "iii", &requests, &answers, &places)) return nullptr;
    auto* children = static_cast<pid_t*>(calloc(size_t(places), sizeof(pid_t)));
    if (!children) return PyErr_NoMemory();
    prctl(PR_SET_PDEATHSIG, SIGKILL); // if the parent has ended already, there are no requests
    pid_t own_pid = getpid();
    int64_t request;
    while (receive(requests, &request)) {
        int64_t answer = 0;
        if (request < 0) { // wait
            int status = 0;
            pid_t* child = &children[-1 - request];
            pid_t ended;
            do ended = waitpid(*child, &status, 0);
            while (ended < 0 && errno == EINTR);
            *child = 0;
            answer = ended < 0 ? -errno : status;
        } else { // fork
            answer = fork();
            if (answer == 0) {
                end_with_parent(own_pid);
                close(requests);
                close(answers);
                return PyLong_FromLongLong(request);
            }
            if (answer > 0) children[request] = pid_t(answer);
            if (answer < 0) answer = -errno;
        }
        if (write(answers, &answer, sizeof answer) != sizeof answer) break;
    }
    for (int i = 0; i < places; i++) {
        if (children[i]) kill(children[i], SIGKILL);
    }
    while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {}
    _exit(0);
}

} // namespace

PyMethodDef life_functions[] = {
    {"shut_down", shut_down, METH_O,
     "shut_down(seconds, /)\n--\n\nCancel this thread's other fibers, wait for them for at most that time, and print "
     "exceptions that the program has not seen. Return the number of fibers left."},
    {"forked", forked, METH_NOARGS, "forked()\n--\n\nFor os.register_at_fork."},
    {"serve_forks", serve_forks, METH_VARARGS,
     "serve_forks(requests, answers, places, /)\n--\n\nServe requests, numbers of 8 bytes that come by one descriptor; "
     "write an answer to each to the other one.\nN, below places: fork, and answer with the process ID or a negative "
     "errno; the call returns N in the child.\n-1 - N: wait for that child, and answer with its status or a negative "
     "errno.\nAfter the last request, kill the children, and end the process, which must have one thread. The kernel "
     "kills it, or a child, when its parent ends."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
