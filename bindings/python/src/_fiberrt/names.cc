// SPDX-License-Identifier: MIT OR Apache-2.0
#include "names.h"

#include "fiber.h"
#include "times.h"

#include <stdlib.h>
#include <string.h>

namespace fiberrt_python {

bool names_functions;

namespace {

// The name of what a fiber calls, as UTF-8, or null. Runs no code of the program.
const char* name_of(PyObject* callable) {
    if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
    if (PyFunction_Check(callable))
        return PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(callable)->func_qualname);
    if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    return Py_TYPE(callable)->tp_name;
}

bool is_set(const char* variable) {
    const char* value = getenv(variable);
    return value && *value && strcmp(value, "0") != 0;
}

} // namespace

void name_after_function(FiberObject* fiber) {
    if (fiber->name || !(fiber->function || fiber->main_flow)) return;
    const char* name = fiber->main_flow ? "main" : name_of(fiber->function);
    if (!name) return PyErr_Clear();
    // The end of a qualified name says more than its beginning.
    constexpr size_t most = FIBER_NAME_MAX - 1;
    size_t length = strlen(name);
    char cut[FIBER_NAME_MAX] = "...";
    if (length > most) {
        const char* from = name + length - (most - 3);
        while ((*from & 0xC0) == 0x80) from++; // in the middle of a character
        strcpy(cut + 3, from);
        name = cut;
    }
    fiber_set_name(fiber->handle, name);
}

void names_begin() {
    names_functions = true;
    if (!this_world) return;
    name_after_function(this_world->main);
    for (FiberObject* fiber = this_world->live.first; fiber; fiber = fiber->next) name_after_function(fiber);
}

void names_begin_by_environment() {
    keeps_times = is_set("FIBERRT_ACCOUNTING");
    names_functions = keeps_times || is_set("FIBERRT_TRACE");
}

} // namespace fiberrt_python
