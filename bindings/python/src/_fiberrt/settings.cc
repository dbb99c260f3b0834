// SPDX-License-Identifier: MIT OR Apache-2.0
// Functions that never wait, by pybind11. It keeps a stack of the calls in progress per thread, which a switch would
// mix up. So no function here runs code of the program, which might wait: numbers are py::int_, not objects with
// __index__.
#include "functions.h"
#include "waiting.h"

#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace fiberrt_python {

namespace {

// A smaller stack has no room for the code that does not count as recursion.
constexpr long long stack_least = 256 * 1024;

size_t stack_size(const py::int_& number) {
    long long bytes = PyLong_AsLongLong(number.ptr());
    if (bytes == -1 && PyErr_Occurred()) throw py::error_already_set();
    size_t before = stack_bytes;
    if (bytes == 0) return before;
    if (bytes < stack_least || bytes > static_cast<long long>(FIBER_STACK_MAX))
        throw py::value_error("a stack has from 256 KiB to 1 GiB");
    stack_bytes = size_t(bytes);
    return before;
}

// Making a dict may collect garbage and run a finalizer that waits, which is forbidden here.
py::dict empty_dict() {
    bool entered = fiber_noswitch_enter() == 0;
    py::dict result;
    if (entered) fiber_noswitch_leave();
    return result;
}

py::dict stats() {
    fiber_stats_t stats;
    int error = fiber_stats(&stats, sizeof stats);
    if (error < 0) {
        raise_errno(error);
        throw py::error_already_set();
    }
    py::dict result = empty_dict();
    result["switches"] = stats.switches;
    result["instant_resumes"] = stats.instant_resumes;
    result["polls"] = stats.polls;
    result["blocking_polls"] = stats.blocking_polls;
    result["operations"] = stats.ops;
    result["fibers"] = stats.fibers;
    result["stacks"] = stats.stacks;
    result["stacks_free"] = stats.stacks_free;
    return result;
}

void core_dump(const py::int_& number) {
    long fd = PyLong_AsLong(number.ptr());
    if (fd == -1 && PyErr_Occurred()) throw py::error_already_set();
    int error = fiber_dump(fd == int(fd) ? int(fd) : -1);
    if (error == 0) return;
    raise_errno(error);
    throw py::error_already_set();
}

void report_overflows(const py::bool_& on) {
    int error = fiber_report_overflows(bool(on));
    if (error == 0) return;
    raise_errno(error);
    throw py::error_already_set();
}

} // namespace

int settings_add(PyObject* object) {
    try {
        auto module = py::reinterpret_borrow<py::module_>(object);
        module.def(
            "stack_size", stack_size, py::arg("bytes") = 0,
            "Return the stack size of new fibers, in bytes of address space; with an argument, set it and return the "
            "former one. On a smaller stack, recursion raises RecursionError sooner.");
        module.def("stats", stats, "Return counters of the calling thread.");
        module.def(
            "backend", [] { return std::string(fiber_backend_name()); },
            "Return the backend that performs this thread's I/O: uring, ev, sim or none.");
        module.def("report_overflows", report_overflows, py::arg("on"), "Turn reports of stack overflows on or off.");
        module.def("core_version", fiber_version, "Return the version of the core, as a number.");
        module.def("core_dump", core_dump, py::arg("fd") = 2, "Write the core's dump of all fibers.");
        return 0;
    } catch (py::error_already_set& error) {
        error.restore();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_ImportError, error.what());
    }
    return -1;
}

} // namespace fiberrt_python
