// SPDX-License-Identifier: MIT OR Apache-2.0
// The module fiberrt._fiberrt: checks the interpreter, and adds the module's names.
#include "fiber.h"
#include "files.h"
#include "frames.h"
#include "functions.h"
#include "loop.h"
#include "mounts.h"
#include "names.h"
#include "queue.h"
#include "streams.h"
#include "waiting.h"

#include <initializer_list>
#include <string.h>

namespace fiberrt_python {

namespace {

// Returns 0, or -1 with ImportError set if the module cannot work in this interpreter.
int refuse() {
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "fiberrt works in the main interpreter only, and this is a subinterpreter");
        return -1;
    }
    const char* running = Py_GetVersion();
    static const char built[] = Py_STRINGIFY(PY_MAJOR_VERSION) "." Py_STRINGIFY(PY_MINOR_VERSION) ".";
    if (strncmp(running, built, sizeof built - 1) != 0) {
        PyErr_Format(PyExc_ImportError, "fiberrt was built for CPython %s%s", built, "x, and this is another version");
        return -1;
    }
#if PY_VERSION_HEX >= 0x030E0000
    if (!PyUnstable_ThreadState_SetStackProtection) {
        PyErr_SetString(PyExc_ImportError,
                        "fiberrt needs a newer patch release of CPython 3.14, which accepts the bounds of the stacks "
                        "of fibers");
        return -1;
    }
#endif
    return 0;
}

int execute(PyObject* module) {
    if (refuse() < 0) return -1;
    if (PyType_Ready(&FiberType) < 0) return -1;
    if (PyModule_AddObjectRef(module, "Fiber", reinterpret_cast<PyObject*>(&FiberType)) < 0) return -1;
    if (!cancelled_error) {
        cancelled_error = PyErr_NewExceptionWithDoc(
            "fiberrt.CancelledError",
            "Raised by every wait of a cancelled fiber, and of a fiber in a scope that has ended. Do not suppress it.",
            PyExc_BaseException, nullptr);
        if (!cancelled_error) return -1;
    }
    if (PyModule_AddObjectRef(module, "CancelledError", cancelled_error) < 0) return -1;
    for (PyMethodDef* table :
         {fiber_functions, switching_functions, scope_functions, io_functions, offload_functions, sight_functions,
          life_functions, mount_functions, native_functions, running_loop_functions, signal_functions, socket_functions,
          transport_functions, preemption_functions, virtual_clock_functions, name_functions, times_functions,
          trace_functions})
        if (PyModule_AddFunctions(module, table) < 0) return -1;
    for (PyTypeObject* type : {&HandleType, &TimerHandleType, &LoopType, &CoroutineType, &ReaderType,
                               &ReaderProtocolType, &WriterType, &FileCallType})
        if (PyModule_AddType(module, type) < 0) return -1;
    if (locks_add(module) < 0 || queues_add(module) < 0 || channels_add(module) < 0 || files_add(module) < 0) return -1;
    // The version of the package, too, which has no separate number.
    static const char version[] = Py_STRINGIFY(FIBERRT_VERSION_MAJOR) "." Py_STRINGIFY(
        FIBERRT_VERSION_MINOR) "." Py_STRINGIFY(FIBERRT_VERSION_PATCH);
    if (PyModule_AddStringConstant(module, "__version__", version) < 0) return -1;
    if (frames_add() < 0) return -1;
    names_begin_by_environment();
    return settings_add(module);
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(execute)},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "fiberrt._fiberrt", "The engine of fiberrt.", 0, nullptr, slots, nullptr, nullptr, nullptr,
};

} // namespace

} // namespace fiberrt_python

PyMODINIT_FUNC PyInit__fiberrt(void) { return PyModuleDef_Init(&fiberrt_python::definition); }
