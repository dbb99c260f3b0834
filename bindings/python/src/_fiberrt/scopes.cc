// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes of the core, as numbers, for fiberrt._scopes and fiberrt._groups.
#include "functions.h"
#include "waiting.h"

#include <errno.h>

namespace fiberrt_python {

namespace {

bool scope_of(PyObject* number, fiber_scope_t* out) {
    out->id = PyLong_AsUnsignedLongLong(number);
    return !(out->id == uint64_t(-1) && PyErr_Occurred());
}

PyObject* scope_open(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!world() || !takes("scope_open", count, 0, 2)) return nullptr;
    int64_t ns = FIBER_FOREVER;
    if (count > 0 && args[0] != Py_None) ns = nanoseconds(args[0]);
    if (ns < 0) return nullptr;
    int shield = count > 1 ? PyObject_IsTrue(args[1]) : 0;
    if (shield < 0) return nullptr;
    fiber_scope_t scope;
    int error = fiber_scope_open(&scope, ns, shield ? FIBER_SCOPE_SHIELD : 0);
    if (error < 0) return raise_errno(error);
    PyObject* number = PyLong_FromUnsignedLongLong(scope.id);
    if (!number) fiber_scope_close(scope, nullptr); // the caller does not get the scope
    return number;
}

PyObject* scope_close(PyObject*, PyObject* number) {
    fiber_scope_t scope;
    if (!world() || !scope_of(number, &scope)) return nullptr;
    int verdict = fiber_scope_close(scope, nullptr);
    if (verdict == -EPERM) {
        PyErr_SetString(PyExc_RuntimeError, "a scope is closed by another fiber than the one that opened it");
        return nullptr;
    }
    return PyLong_FromLong(verdict);
}

PyObject* scope_cancel(PyObject*, PyObject* number) {
    fiber_scope_t scope;
    if (!scope_of(number, &scope)) return nullptr;
    return PyLong_FromLong(fiber_scope_cancel(scope, nullptr));
}

PyObject* scope_set_timeout(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!world() || !takes("scope_set_timeout", count, 2, 2)) return nullptr;
    fiber_scope_t scope;
    if (!scope_of(args[0], &scope)) return nullptr;
    int64_t ns = args[1] == Py_None ? FIBER_FOREVER : nanoseconds(args[1]);
    if (ns < 0) return nullptr;
    int error = fiber_scope_set_timeout(scope, ns);
    if (error < 0) return raise_errno(error);
    Py_RETURN_NONE;
}

PyObject* cancel_pending(PyObject*, PyObject*) {
    if (!world()) return nullptr;
    return PyBool_FromLong(fiber_cancelled(nullptr) > 0);
}

} // namespace

PyMethodDef scope_functions[] = {
    {"scope_open", as_method(scope_open), METH_FASTCALL, "scope_open(timeout=None, shield=False, /)\n--\n\n"},
    {"scope_close", scope_close, METH_O,
     "scope_close(scope, /)\n--\n\nClose a scope; return its verdict, 0 or a negative errno."},
    {"scope_cancel", scope_cancel, METH_O, "scope_cancel(scope, /)\n--\n\nCancel a scope. Any thread may call this."},
    {"scope_set_timeout", as_method(scope_set_timeout), METH_FASTCALL, "scope_set_timeout(scope, timeout, /)\n--\n\n"},
    {"cancel_pending", cancel_pending, METH_NOARGS,
     "cancel_pending()\n--\n\nWhether the calling fiber has been cancelled."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
