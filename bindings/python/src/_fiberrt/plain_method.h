// SPDX-License-Identifier: MIT OR Apache-2.0
// A method of one of this module's types that other parts of the module call often. If neither a class nor the object
// overrides the method, they call its function, which saves the look-up and a call through the interpreter.
#pragma once

#include <Python.h>

namespace fiberrt_python {

struct PlainMethod {
    PlainMethod(const char* text, PyCFunction call) : name(PyUnicode_InternFromString(text)), function(call) {}

    // Whether a class has the method as this module made it: the class derives from the method's type, and a look-up in
    // its objects calls no code of the program. (A class may contain the method without being derived.)
    bool is_of(PyTypeObject* type) const {
        PyObject* found = _PyType_Lookup(type, name); // borrowed; from the interpreter's cache
        return found && Py_IS_TYPE(found, &PyMethodDescr_Type) &&
               reinterpret_cast<PyMethodDescrObject*>(found)->d_method->ml_meth == function &&
               type->tp_getattro == PyObject_GenericGetAttr && PyType_IsSubtype(type, PyDescr_TYPE(found));
    }
    // For the tp_setattro of the method's type: sets an attribute of an object, and notes whether the object has an
    // attribute of the method's name. A change of the object's __dict__ is not noticed.
    int set_attribute(PyObject* self, PyObject* attribute, PyObject* value, bool& overrides) const {
        int result = PyObject_GenericSetAttr(self, attribute, value);
        if (attribute == name && result == 0) overrides = value; // names are interned
        return result;
    }

    PyObject* name;
    PyCFunction function;
};

} // namespace fiberrt_python
