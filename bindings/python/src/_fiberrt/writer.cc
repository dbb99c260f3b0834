// SPDX-License-Identifier: MIT OR Apache-2.0
// The frequent part of asyncio's StreamWriter for fiberrt.aio: write() and drain().
#include "arguments.h"
#include "functions.h"
#include "streams.h"
#include "transport.h"

#include <stddef.h>
#include <structmember.h>

namespace fiberrt_python {

namespace {

struct WriterObject {
    PyObject_HEAD PyObject* transport;
    PyObject* protocol;
    PyObject* reader;
};

WriterObject* writer_of(PyObject* self) { return reinterpret_cast<WriterObject*>(self); }

// Returns an attribute, borrowed; or null with AttributeError set if it has not been set.
PyObject* set_one(PyObject* attribute, const char* name) {
    if (!attribute) PyErr_SetString(PyExc_AttributeError, name);
    return attribute;
}

PyObject* write(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* data[1] = {};
    if (!take_arguments("write", args, count, names, {"data"}, data, 1)) return nullptr;
    PyObject* transport = set_one(writer_of(self)->transport, "_transport");
    PyObject* result = transport ? transport_write(transport, *data) : nullptr;
    if (!result) return nullptr;
    Py_DECREF(result);
    Py_RETURN_NONE;
}

// Returns false with an exception set: that of the reader.
bool check_reader(WriterObject* writer) {
    static PyObject* name = PyUnicode_InternFromString("exception");
    PyObject* reader = writer->reader;
    if (!reader || reader == Py_None) return true;
    if (Py_TYPE(reader)->tp_base == &ReaderType && is_none(reinterpret_cast<ReaderObject*>(reader)->exception))
        return true;
    PyObject* exception = PyObject_CallMethodNoArgs(reader, name);
    if (!exception) return false;
    bool none = exception == Py_None;
    if (!none) raise_object(exception);
    Py_DECREF(exception);
    return none;
}

// 1 if the transport is being closed, 0 if not, -1 with an exception set.
int is_closing(WriterObject* writer) {
    static PyObject* name = PyUnicode_InternFromString("is_closing");
    PyObject* transport = set_one(writer->transport, "_transport");
    if (transport && is_transport(transport)) return transport_of(transport)->closing;
    PyObject* result = transport ? PyObject_CallMethodNoArgs(transport, name) : nullptr;
    int closing = result ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(result);
    return closing;
}

PySendResult step_drain(CoroutineObject* coroutine, PyObject** result) {
    WriterObject* writer = writer_of(coroutine->owner);
    if (!coroutine->passed) {
        coroutine->passed = 1;
        if (!check_reader(writer)) return PYGEN_ERROR;
        int closing = is_closing(writer);
        if (closing < 0) return PYGEN_ERROR;
        if (closing) return coroutine_next_turn(result); // in it, connection_lost() is called
    }
    bool helped = coroutine->passed == 2;
    static PyObject* helper = PyUnicode_InternFromString("_drain_helper");
    PyObject* protocol = set_one(writer->protocol, "_protocol");
    if (!protocol) return PYGEN_ERROR;
    if (!helped && Py_TYPE(protocol)->tp_base == &ReaderProtocolType) {
        auto* ours = reinterpret_cast<ProtocolObject*>(protocol);
        helped = !ours->paused && !ours->connection_lost;
    }
    if (helped) {
        *result = Py_NewRef(Py_None);
        return PYGEN_RETURN;
    }
    coroutine->passed = 2;
    return coroutine_wait(coroutine, PyObject_CallMethodNoArgs(protocol, helper));
}

const CoroutineKind draining = {"StreamWriter.drain", step_drain, nullptr};

PyObject* drain(PyObject* self, PyObject*) { return coroutine_new(&draining, self, 0, nullptr); }

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(writer_of(self)->transport);
    Py_VISIT(writer_of(self)->protocol);
    Py_VISIT(writer_of(self)->reader);
    return 0;
}

int clear(PyObject* self) {
    Py_CLEAR(writer_of(self)->transport);
    Py_CLEAR(writer_of(self)->protocol);
    Py_CLEAR(writer_of(self)->reader);
    return 0;
}

void deallocate(PyObject* self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_TYPE(self)->tp_free(self);
}

PyMethodDef methods[] = {
    {"write", as_method(write), METH_FASTCALL | METH_KEYWORDS,
     "write($self, data)\n--\n\nSend the data, or keep it until there is room to send it."},
    {"drain", drain, METH_NOARGS,
     "drain($self)\n--\n\nA coroutine that waits until the transport keeps little data that is not sent."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"_transport", T_OBJECT, offsetof(WriterObject, transport), 0, nullptr},
    {"_protocol", T_OBJECT, offsetof(WriterObject, protocol), 0, nullptr},
    {"_reader", T_OBJECT, offsetof(WriterObject, reader), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

} // namespace

PyTypeObject WriterType = [] {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "fiberrt._fiberrt.Writer";
    type.tp_doc = "The engine of asyncio.StreamWriter.";
    type.tp_basicsize = sizeof(WriterObject);
    type.tp_dealloc = deallocate;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
    type.tp_traverse = traverse;
    type.tp_clear = clear;
    type.tp_methods = methods;
    type.tp_members = members;
    type.tp_new = PyType_GenericNew;
    return type;
}();

} // namespace fiberrt_python
