// SPDX-License-Identifier: MIT OR Apache-2.0
// Introspection of all fibers, for dump(), debuggers and tests.
#include "functions.h"
#include "waiting.h"

#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

namespace fiberrt_python {

namespace {

PyObject* fibers(PyObject*, PyObject*) {
    worlds_sweep();
    PyObject* list = PyList_New(0);
    if (!list) return nullptr;
    NoCollection while_looking;
    for (World* world = all_worlds; world; world = world->next) {
        int error = PyList_Append(list, reinterpret_cast<PyObject*>(world->main));
        for (FiberObject* fiber = world->live.first; fiber && error == 0; fiber = fiber->next)
            error = PyList_Append(list, reinterpret_cast<PyObject*>(fiber));
        if (error < 0) {
            Py_DECREF(list);
            return nullptr;
        }
    }
    return list;
}

// Returns the innermost frame of a fiber. The saved members of a waiting fiber of any thread are consistent while the
// caller holds the GIL. So they replace the caller's for a moment, and the interpreter returns the frame.
PyObject* frame(PyObject*, PyObject* object) {
    if (!Py_IS_TYPE(object, &FiberType)) return PyErr_Format(PyExc_TypeError, "frame() takes a Fiber");
    auto* fiber = reinterpret_cast<FiberObject*>(object);
    worlds_sweep();
    if (fiber->done || !fiber->started || !world_has_state(fiber->world)) Py_RETURN_NONE;
    PyFrameObject* found;
    if (fiber->world->loaded == &fiber->execution) {
        found = PyThreadState_GetFrame(fiber->world->state);
    } else {
        PyThreadState* state = PyThreadState_Get();
#if PY_VERSION_HEX < 0x030D0000
        _PyCFrame* own = state->cframe;
        state->cframe = fiber->execution.cframe;
        found = PyThreadState_GetFrame(state);
        state->cframe = own;
#else
        auto* own = state->current_frame;
        state->current_frame = fiber->execution.current_frame;
        found = PyThreadState_GetFrame(state);
        state->current_frame = own;
#endif
    }
    return found ? reinterpret_cast<PyObject*>(found) : Py_NewRef(Py_None);
}

// Returns the frames as the C library's dumps have them, read without the GIL.
PyObject* core_frames(PyObject*, PyObject* object) {
    if (!Py_IS_TYPE(object, &FiberType)) return PyErr_Format(PyExc_TypeError, "core_frames() takes a Fiber");
    constexpr int most = 64;
    fiber_code_frame_t frames[most];
    fiber_t handle = reinterpret_cast<FiberObject*>(object)->handle;
    int count;
    Py_BEGIN_ALLOW_THREADS;
    count = fiber_code_frames(handle, frames, most);
    Py_END_ALLOW_THREADS;
    if (count == -EBUSY || count == -ESRCH) Py_RETURN_NONE;
    if (count < 0) return raise_errno(count);
    PyObject* list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject* frame = Py_BuildValue("(sis)", frames[i].file, int(frames[i].line), frames[i].function);
        if (frame) {
            PyList_SET_ITEM(list, i, frame);
        } else {
            Py_CLEAR(list);
        }
    }
    return list;
}

// The number of the fiber's handle, by which the C library's dumps name it; 0 if it has ended.
PyObject* id_of(PyObject*, PyObject* object) {
    if (!Py_IS_TYPE(object, &FiberType)) return PyErr_Format(PyExc_TypeError, "id_of() takes a Fiber");
    auto* fiber = reinterpret_cast<FiberObject*>(object);
    return PyLong_FromUnsignedLongLong(fiber->done ? 0 : fiber->handle.id);
}

// The __qualname__ of the fiber's function, or None: it has returned, or has no such name.
PyObject* function_name(PyObject*, PyObject* object) {
    if (!Py_IS_TYPE(object, &FiberType)) return PyErr_Format(PyExc_TypeError, "function_name() takes a Fiber");
    PyObject* function = reinterpret_cast<FiberObject*>(object)->function;
    if (!function || !PyFunction_Check(function)) Py_RETURN_NONE; // reading it from another object may run any code
    return Py_NewRef(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
}

// Returns the file's content, and closes it; null with an exception set.
PyObject* take_content(int fd) {
    off_t size = lseek(fd, 0, SEEK_END);
    PyObject* bytes = size < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyBytes_FromStringAndSize(nullptr, size);
    for (off_t at = 0; bytes && at < size;) {
        ssize_t count = pread(fd, PyBytes_AS_STRING(bytes) + at, size_t(size - at), at);
        if (count > 0) {
            at += count;
        } else if (count == 0 || errno != EINTR) {
            Py_CLEAR(bytes);
            PyErr_SetFromErrno(PyExc_OSError);
        }
    }
    close(fd);
    return bytes;
}

// Keeps the GIL, so that no Python fiber goes on meanwhile.
PyObject* core_text(PyObject*, PyObject* number) {
    long flags = PyLong_Check(number) ? PyLong_AsLong(number) : -1;
    if (flags < 0 || flags > INT_MAX) return PyErr_Format(PyExc_ValueError, "core_text() takes flags of fiber_dump_as");
    int fd = memfd_create("fiberrt", MFD_CLOEXEC);
    if (fd < 0) return PyErr_SetFromErrno(PyExc_OSError);
    int error = fiber_dump_as(fd, unsigned(flags));
    if (error == 0) return take_content(fd);
    close(fd);
    return error == -ENOMEM ? PyErr_NoMemory() : raise_errno(error);
}

PyObject* thread_of(PyObject*, PyObject* object) {
    if (!Py_IS_TYPE(object, &FiberType)) return PyErr_Format(PyExc_TypeError, "thread_of() takes a Fiber");
    auto* fiber = reinterpret_cast<FiberObject*>(object);
    worlds_sweep();
    if (!fiber->world) Py_RETURN_NONE;
    return PyLong_FromUnsignedLong(fiber->world->thread);
}

// Returns the threads that run one of several fibers, with their counters of turns. The caller holds the GIL.
PyObject* running(PyObject*, PyObject*) {
    worlds_sweep();
    PyObject* list = PyList_New(0);
    if (!list) return nullptr;
    NoCollection while_looking;
    for (World* world = all_worlds; world; world = world->next) {
        if (world->released || world->live_count == 0) continue;
        PyObject* item = Py_BuildValue("(Ok)", world->current, world->turns);
        int error = item ? PyList_Append(list, item) : -1;
        Py_XDECREF(item);
        if (error < 0) {
            Py_DECREF(list);
            return nullptr;
        }
    }
    return list;
}

PyObject* number_of(PyObject*, PyObject* object) {
    if (!Py_IS_TYPE(object, &FiberType)) return PyErr_Format(PyExc_TypeError, "number_of() takes a Fiber");
    auto* fiber = reinterpret_cast<FiberObject*>(object);
    if (fiber->main_flow && !fiber->survivor) return thread_of(nullptr, object);
    return PyLong_FromUnsignedLongLong(fiber->number);
}

// Returns the running fiber's number. A main flow has its thread's identifier, even without a world.
PyObject* ident(PyObject*, PyObject*) {
    World* here = this_world;
    bool fiber = here && (!here->current->main_flow || here->current->survivor);
    return fiber ? PyLong_FromUnsignedLongLong(here->current->number)
                 : PyLong_FromUnsignedLong(PyThread_get_thread_ident());
}

} // namespace

PyMethodDef sight_functions[] = {
    {"fibers", fibers, METH_NOARGS,
     "fibers()\n--\n\nReturn the live fibers of all threads; each main flow comes first."},
    {"frame", frame, METH_O, "frame(fiber, /)\n--\n\nReturn the innermost frame of a fiber, or None."},
    {"core_frames", core_frames, METH_O,
     "core_frames(fiber, /)\n--\n\nReturn the frames of a fiber as the C library reads them, without the GIL: a list "
     "of "
     "(file, line, function), the innermost first; or None if the fiber runs or has ended."},
    {"core_text", core_text, METH_O,
     "core_text(flags, /)\n--\n\nReturn the C library's dump of all fibers. flags: those of fiber_dump_as in C."},
    {"function_name", function_name, METH_O,
     "function_name(fiber, /)\n--\n\nReturn the __qualname__ of a fiber's function, or None."},
    {"id_of", id_of, METH_O, "id_of(fiber, /)\n--\n\nReturn the fiber's id in the C library, or 0 if it has ended."},
    {"running", running, METH_NOARGS,
     "running()\n--\n\nReturn a list with the running fiber, and the counter of switches, of each thread that has "
     "fibers "
     "and is not idle."},
    {"thread_of", thread_of, METH_O,
     "thread_of(fiber, /)\n--\n\nReturn threading.get_ident() of a live fiber's thread."},
    {"number_of", number_of, METH_O, "number_of(fiber, /)\n--\n\nReturn what ident() returns in a live fiber."},
    {"ident", ident, METH_NOARGS,
     "ident()\n--\n\nReturn the running fiber's number, which is never reused; in a main flow, its thread's "
     "identifier."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
