// SPDX-License-Identifier: MIT OR Apache-2.0
// The frequent part of asyncio's StreamReader and StreamReaderProtocol for fiberrt.aio: received data, and the reads.
// The classes (fiberrt/_streams.py) derive from these types and from asyncio's. asyncio's Python code does the rest, on
// the same attributes: errors of reads, too.
#include "arguments.h"
#include "functions.h"
#include "loop.h"
#include "plain_method.h"
#include "streams.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

namespace fiberrt_python {

namespace {

ReaderObject* reader_of(PyObject* self) { return reinterpret_cast<ReaderObject*>(self); }

// ---- The data -------------------------------------------------------------------------------------------------------
//
// The reader keeps the bytes object of data that it receives while it has none: often the next read takes all of it.

size_t size_of(const ReaderObject* reader) {
    if (reader->chunk) return size_t(PyBytes_GET_SIZE(reader->chunk));
    return reader->buffer ? size_t(PyByteArray_GET_SIZE(reader->buffer)) : 0;
}

const char* data_of(const ReaderObject* reader) {
    return reader->chunk ? PyBytes_AS_STRING(reader->chunk) : PyByteArray_AS_STRING(reader->buffer);
}

bool append(PyObject* buffer, const char* data, size_t size) {
    Py_ssize_t before = PyByteArray_GET_SIZE(buffer);
    if (PyByteArray_Resize(buffer, before + Py_ssize_t(size)) < 0) return false;
    memcpy(PyByteArray_AS_STRING(buffer) + before, data, size);
    return true;
}

// Returns the bytearray with all the data: a borrowed reference, or null with an exception set.
PyObject* whole_buffer(ReaderObject* reader) {
    if (!reader->buffer && !(reader->buffer = PyByteArray_FromStringAndSize(nullptr, 0))) return nullptr;
    if (reader->chunk) {
        if (!append(reader->buffer, PyBytes_AS_STRING(reader->chunk), size_t(PyBytes_GET_SIZE(reader->chunk))))
            return nullptr;
        Py_CLEAR(reader->chunk);
    }
    return reader->buffer;
}

bool keep(ReaderObject* reader, PyObject* data) {
    if (PyBytes_CheckExact(data) && !size_of(reader)) {
        Py_XSETREF(reader->chunk, Py_NewRef(data));
        return true;
    }
    PyObject* buffer = whole_buffer(reader);
    if (!buffer) return false;
    if (PyBytes_CheckExact(data)) return append(buffer, PyBytes_AS_STRING(data), size_t(PyBytes_GET_SIZE(data)));
    PyObject* extended = PyObject_CallMethod(buffer, "extend", "O", data);
    Py_XDECREF(extended);
    return extended;
}

bool resume_transport(ReaderObject* reader) {
    static PyObject* name = PyUnicode_InternFromString("resume_reading");
    reader->paused = false;
    PyObject* transport = Py_NewRef(reader->transport ? reader->transport : Py_None);
    PyObject* result = PyObject_CallMethodNoArgs(transport, name);
    Py_DECREF(transport);
    Py_XDECREF(result);
    return result;
}

// Removes the first bytes and returns them.
PyObject* take(ReaderObject* reader, size_t size) {
    PyObject* taken;
    if (reader->chunk && size == size_of(reader)) {
        taken = reader->chunk;
        reader->chunk = nullptr;
    } else {
        PyObject* buffer = whole_buffer(reader);
        taken = buffer ? PyBytes_FromStringAndSize(PyByteArray_AS_STRING(buffer), Py_ssize_t(size)) : nullptr;
        if (!taken || PySequence_DelSlice(buffer, 0, Py_ssize_t(size)) < 0) {
            Py_XDECREF(taken);
            return nullptr;
        }
    }
    reader->taken += size;
    if (reader->paused && size_of(reader) <= reader->limit && !resume_transport(reader)) Py_CLEAR(taken);
    return taken;
}

// ---- Feeding --------------------------------------------------------------------------------------------------------

bool wake(ReaderObject* reader) {
    static PyObject* cancelled = PyUnicode_InternFromString("cancelled");
    static PyObject* set_result = PyUnicode_InternFromString("set_result");
    PyObject* waiter = reader->waiter;
    if (is_none(waiter)) return true;
    reader->waiter = nullptr;
    PyObject* result = PyObject_CallMethodOneArg(waiter, set_result, Py_None);
    if (!result) { // it may have been cancelled
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        result = PyObject_CallMethodNoArgs(waiter, cancelled);
        if (result == Py_True) {
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
        } else {
            Py_CLEAR(result);
            PyErr_Restore(type, value, traceback);
        }
    }
    Py_DECREF(waiter);
    Py_XDECREF(result);
    return result;
}

bool pause_transport(ReaderObject* reader) {
    static PyObject* name = PyUnicode_InternFromString("pause_reading");
    PyObject* transport = Py_NewRef(reader->transport);
    PyObject* result = PyObject_CallMethodNoArgs(transport, name);
    Py_DECREF(transport);
    if (result) {
        reader->paused = true;
    } else if (PyErr_ExceptionMatches(PyExc_NotImplementedError)) { // it keeps all the data
        PyErr_Clear();
        Py_CLEAR(reader->transport);
        return true;
    }
    Py_XDECREF(result);
    return result;
}

bool feed(ReaderObject* reader, PyObject* data) {
    if (reader->eof) {
        PyErr_SetString(PyExc_AssertionError, "feed_data after feed_eof");
        return false;
    }
    int some = PyObject_IsTrue(data);
    if (some <= 0) return some == 0;
    if (!keep(reader, data) || !wake(reader)) return false;
    bool full = !reader->paused && size_of(reader) > 2 * reader->limit;
    return !full || is_none(reader->transport) || pause_transport(reader);
}

PyObject* feed_data(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* data[1] = {};
    if (!take_arguments("feed_data", args, count, names, {"data"}, data, 1) || !feed(reader_of(self), *data))
        return nullptr;
    Py_RETURN_NONE;
}

const PlainMethod& plain_feed_data() {
    static const PlainMethod method("feed_data", as_method(feed_data));
    return method;
}

// ---- Reading --------------------------------------------------------------------------------------------------------

PyObject* new_future(PyObject* loop) {
    static const PlainMethod create_future("create_future", loop_create_future);
    if (create_future.is_of(Py_TYPE(loop)) && !reinterpret_cast<LoopObject*>(loop)->own_create_future)
        return loop_create_future(loop, nullptr);
    return PyObject_CallMethodNoArgs(loop, create_future.name);
}

// asyncio's own coroutine for the call: for errors, and for rare arguments.
PyObject* of_asyncio(PyObject* reader, const char* name, PyObject* argument) {
    PyObject* module = PyImport_ImportModule("asyncio.streams");
    PyObject* type = module ? PyObject_GetAttrString(module, "StreamReader") : nullptr;
    PyObject* function = type ? PyObject_GetAttrString(type, name) : nullptr;
    PyObject* args[] = {reader, argument};
    PyObject* result = function ? PyObject_Vectorcall(function, args, argument ? 2 : 1, nullptr) : nullptr;
    Py_XDECREF(module);
    Py_XDECREF(type);
    Py_XDECREF(function);
    return result;
}

void waited(CoroutineObject* coroutine) {
    ReaderObject* reader = reader_of(coroutine->owner);
    if (coroutine->waiter && reader->waiter == coroutine->waiter) Py_CLEAR(reader->waiter);
    coroutine->waiter = nullptr;
}

// asyncio's _wait_for_data().
PySendResult wait_for_data(CoroutineObject* coroutine, const char* name) {
    ReaderObject* reader = reader_of(coroutine->owner);
    if (!is_none(reader->waiter)) {
        PyErr_Format(PyExc_RuntimeError, "%s() called while another coroutine is already waiting for incoming data",
                     name);
        return PYGEN_ERROR;
    }
    if (reader->paused && !resume_transport(reader)) return PYGEN_ERROR;
    PyObject* waiter = reader->loop ? new_future(reader->loop) : PyErr_Format(PyExc_RuntimeError, "no loop");
    if (!waiter) return PYGEN_ERROR;
    Py_XSETREF(reader->waiter, Py_NewRef(waiter));
    coroutine->waiter = waiter;
    PySendResult sent = coroutine_wait(coroutine, waiter);
    if (sent == PYGEN_ERROR) waited(coroutine);
    return sent;
}

// Calls asyncio's own coroutine, which fails, or returns the rest of the data. It would first raise an exception that
// the reader has received since this read began; the read has looked for one at its beginning.
PySendResult fail_as_asyncio(CoroutineObject* coroutine, PyObject** result, const char* name, PyObject* argument) {
    ReaderObject* reader = reader_of(coroutine->owner);
    if (coroutine_delegate(coroutine, of_asyncio(coroutine->owner, name, argument)) == PYGEN_ERROR) return PYGEN_ERROR;
    PyObject* exception = reader->exception;
    reader->exception = nullptr;
    PySendResult sent = PyIter_Send(coroutine->inner, Py_None, result);
    if (reader->exception)
        Py_XDECREF(exception); // there is a new one
    else
        reader->exception = exception;
    if (sent != PYGEN_NEXT) Py_CLEAR(coroutine->inner); // otherwise a method is overridden, and waits
    return sent;
}

// At the first step, raises the exception that the reader has. Returns false if there is one.
bool check_exception(CoroutineObject* coroutine) {
    PyObject* exception = reader_of(coroutine->owner)->exception;
    bool first = !coroutine->passed;
    coroutine->passed = 1;
    if (!first || is_none(exception)) return true;
    raise_object(exception);
    return false;
}

PySendResult give(PyObject** result, PyObject* value) {
    *result = value;
    return value ? PYGEN_RETURN : PYGEN_ERROR;
}

PySendResult step_read(CoroutineObject* coroutine, PyObject** result) {
    ReaderObject* reader = reader_of(coroutine->owner);
    if (!check_exception(coroutine)) return PYGEN_ERROR;
    size_t most = size_t(coroutine->number), size = size_of(reader);
    if (most && !size && !reader->eof) return wait_for_data(coroutine, "read");
    if (!most || !size) return give(result, PyBytes_FromStringAndSize(nullptr, 0));
    return give(result, take(reader, size < most ? size : most));
}

PySendResult step_read_exactly(CoroutineObject* coroutine, PyObject** result) {
    ReaderObject* reader = reader_of(coroutine->owner);
    if (!check_exception(coroutine)) return PYGEN_ERROR;
    size_t size = size_t(coroutine->number);
    if (!size) return give(result, PyBytes_FromStringAndSize(nullptr, 0));
    if (size_of(reader) >= size) return give(result, take(reader, size));
    if (!reader->eof) return wait_for_data(coroutine, "readexactly");
    PyObject* number = PyLong_FromSsize_t(coroutine->number);
    if (!number) return PYGEN_ERROR;
    PySendResult sent = fail_as_asyncio(coroutine, result, "readexactly", number);
    Py_DECREF(number);
    return sent;
}

PySendResult read_until(CoroutineObject* coroutine, PyObject** result, const char* separator, size_t length,
                        const char* call) {
    ReaderObject* reader = reader_of(coroutine->owner);
    if (!check_exception(coroutine)) return PYGEN_ERROR;
    // Up to there the data does not contain the separator. Another read may have taken data meanwhile.
    size_t size = size_of(reader), searched = size_t(coroutine->offset);
    size_t offset = searched > reader->taken ? searched - reader->taken : 0;
    if (offset > size) offset = 0;
    const char* data = size ? data_of(reader) : nullptr;
    auto* found = data ? static_cast<const char*>(memmem(data + offset, size - offset, separator, length)) : nullptr;
    bool too_much = found ? size_t(found - data) > reader->limit : size >= length && size + 1 - length > reader->limit;
    if (too_much || (!found && reader->eof)) return fail_as_asyncio(coroutine, result, call, coroutine->argument);
    if (found) return give(result, take(reader, size_t(found - data) + length));
    coroutine->offset = Py_ssize_t(reader->taken + (size >= length ? size + 1 - length : 0));
    return wait_for_data(coroutine, "readuntil");
}

PySendResult step_read_until(CoroutineObject* coroutine, PyObject** result) {
    PyObject* separator = coroutine->argument;
    return read_until(coroutine, result, PyBytes_AS_STRING(separator), size_t(PyBytes_GET_SIZE(separator)),
                      "readuntil");
}

PySendResult step_read_line(CoroutineObject* coroutine, PyObject** result) {
    return read_until(coroutine, result, "\n", 1, "readline");
}

const CoroutineKind reading = {"StreamReader.read", step_read, waited};
const CoroutineKind reading_exactly = {"StreamReader.readexactly", step_read_exactly, waited};
const CoroutineKind reading_until = {"StreamReader.readuntil", step_read_until, waited};
const CoroutineKind reading_line = {"StreamReader.readline", step_read_line, waited};

// Returns a coroutine that takes a number of bytes; asyncio's own for other arguments.
PyObject* read_number(const CoroutineKind* kind, const char* name, PyObject* self, PyObject* number) {
    if (PyLong_CheckExact(number)) {
        Py_ssize_t bytes = PyLong_AsSsize_t(number);
        if (bytes >= 0) return coroutine_new(kind, self, bytes, nullptr);
        PyErr_Clear();
    }
    return of_asyncio(self, name, number);
}

PyObject* read(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* number[1] = {};
    if (!take_arguments("read", args, count, names, {"n"}, number)) return nullptr;
    return *number ? read_number(&reading, "read", self, *number) : of_asyncio(self, "read", nullptr);
}

PyObject* read_exactly(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* number[1] = {};
    if (!take_arguments("readexactly", args, count, names, {"n"}, number, 1)) return nullptr;
    return read_number(&reading_exactly, "readexactly", self, *number);
}

PyObject* read_line(PyObject* self, PyObject*) { return coroutine_new(&reading_line, self, 0, nullptr); }

PyObject* read_until_separator(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    static PyObject* newline = PyBytes_FromString("\n");
    PyObject* given[1] = {};
    if (!take_arguments("readuntil", args, count, names, {"separator"}, given)) return nullptr;
    PyObject* separator = *given ? *given : newline;
    if (!PyBytes_CheckExact(separator) || !PyBytes_GET_SIZE(separator)) return of_asyncio(self, "readuntil", separator);
    return coroutine_new(&reading_until, self, 0, separator);
}

PyObject* get_exception(PyObject* self, PyObject*) {
    PyObject* exception = reader_of(self)->exception;
    return Py_NewRef(exception ? exception : Py_None);
}

PyObject* at_eof(PyObject* self, PyObject*) {
    return PyBool_FromLong(reader_of(self)->eof && !size_of(reader_of(self)));
}

// ---- The reader's type ----------------------------------------------------------------------------------------------

PyObject* get_buffer(PyObject* self, void*) { return Py_XNewRef(whole_buffer(reader_of(self))); }

int set_buffer(PyObject* self, PyObject* buffer, void*) {
    if (!buffer || !PyByteArray_Check(buffer)) {
        PyErr_SetString(PyExc_TypeError, "the buffer of a StreamReader is a bytearray");
        return -1;
    }
    Py_CLEAR(reader_of(self)->chunk);
    Py_XSETREF(reader_of(self)->buffer, Py_NewRef(buffer));
    return 0;
}

PyObject* get_limit(PyObject* self, void*) {
    PyObject* limit = reader_of(self)->limit_given;
    return Py_NewRef(limit ? limit : Py_None);
}

int set_limit(PyObject* self, PyObject* limit, void*) {
    double bytes = limit ? PyFloat_AsDouble(limit) : -1;
    if (!limit || (bytes == -1 && PyErr_Occurred())) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "the limit of a StreamReader cannot be deleted");
        return -1;
    }
    constexpr size_t most = SIZE_MAX / 4;
    reader_of(self)->limit = !(bytes > 0) ? 0 : bytes < double(most) ? size_t(bytes) : most;
    Py_XSETREF(reader_of(self)->limit_given, Py_NewRef(limit));
    return 0;
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
    return plain_feed_data().set_attribute(self, name, value, reader_of(self)->own_feed_data);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    ReaderObject* reader = reader_of(self);
    Py_VISIT(reader->buffer);
    Py_VISIT(reader->waiter);
    Py_VISIT(reader->exception);
    Py_VISIT(reader->transport);
    Py_VISIT(reader->loop);
    Py_VISIT(reader->limit_given);
    return 0;
}

int clear(PyObject* self) {
    ReaderObject* reader = reader_of(self);
    Py_CLEAR(reader->chunk);
    Py_CLEAR(reader->buffer);
    Py_CLEAR(reader->waiter);
    Py_CLEAR(reader->exception);
    Py_CLEAR(reader->transport);
    Py_CLEAR(reader->loop);
    Py_CLEAR(reader->limit_given);
    return 0;
}

void deallocate(PyObject* self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_TYPE(self)->tp_free(self);
}

PyMethodDef methods[] = {
    {"feed_data", as_method(feed_data), METH_FASTCALL | METH_KEYWORDS,
     "feed_data($self, data)\n--\n\nAdd received data, for the reads."},
    {"read", as_method(read), METH_FASTCALL | METH_KEYWORDS,
     "read($self, n=-1)\n--\n\nA coroutine that returns up to n bytes when there are some; b'' at the end of the "
     "data.\n"
     "-1: all bytes up to the end."},
    {"readexactly", as_method(read_exactly), METH_FASTCALL | METH_KEYWORDS,
     "readexactly($self, n)\n--\n\nA coroutine that returns n bytes. IncompleteReadError: the data ends before."},
    {"readuntil", as_method(read_until_separator), METH_FASTCALL | METH_KEYWORDS,
     "readuntil($self, separator=b'\\n')\n--\n\nA coroutine that returns the bytes up to and with the separator.\n"
     "IncompleteReadError: the data ends before. LimitOverrunError: there are more bytes than the reader's limit."},
    {"readline", read_line, METH_NOARGS,
     "readline($self)\n--\n\nA coroutine that returns the bytes up to and with the next newline, or up to the end.\n"
     "ValueError: there are more bytes than the reader's limit."},
    {"exception", get_exception, METH_NOARGS, "exception($self)\n--\n\nThe exception of set_exception(), or None."},
    {"at_eof", at_eof, METH_NOARGS, "at_eof($self)\n--\n\nWhether the data has ended and all has been read."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"_waiter", T_OBJECT, offsetof(ReaderObject, waiter), 0, nullptr},
    {"_exception", T_OBJECT, offsetof(ReaderObject, exception), 0, nullptr},
    {"_transport", T_OBJECT, offsetof(ReaderObject, transport), 0, nullptr},
    {"_loop", T_OBJECT, offsetof(ReaderObject, loop), 0, nullptr},
    {"_eof", T_BOOL, offsetof(ReaderObject, eof), 0, nullptr},
    {"_paused", T_BOOL, offsetof(ReaderObject, paused), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"_buffer", get_buffer, set_buffer, nullptr, nullptr},
    {"_limit", get_limit, set_limit, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// ---- The protocol ---------------------------------------------------------------------------------------------------

ProtocolObject* protocol_of(PyObject* self) { return reinterpret_cast<ProtocolObject*>(self); }

// The reader, a new reference; Py_None: there is none.
PyObject* reader_of_protocol(ProtocolObject* protocol) {
    PyObject* reference = protocol->reader_reference;
    if (is_none(reference)) return Py_NewRef(Py_None);
#if PY_VERSION_HEX < 0x030D0000
    if (PyWeakref_CheckRefExact(reference)) return Py_NewRef(PyWeakref_GET_OBJECT(reference));
#else
    if (PyWeakref_CheckRefExact(reference)) {
        PyObject* reader;
        int there = PyWeakref_GetRef(reference, &reader);
        return there ? there < 0 ? nullptr : reader : Py_NewRef(Py_None);
    }
#endif
    return PyObject_CallNoArgs(reference);
}

PyObject* data_received(PyObject* self, PyObject* data) {
    PyObject* reader = reader_of_protocol(protocol_of(self));
    if (!reader || reader == Py_None) return reader;
    if (plain_feed_data().is_of(Py_TYPE(reader)) && !reader_of(reader)->own_feed_data) {
        bool fed = feed(reader_of(reader), data);
        Py_DECREF(reader);
        return fed ? Py_NewRef(Py_None) : nullptr;
    }
    PyObject* result = PyObject_CallMethodOneArg(reader, plain_feed_data().name, data);
    Py_DECREF(reader);
    if (!result) return nullptr;
    Py_DECREF(result);
    Py_RETURN_NONE;
}

const PlainMethod& plain_data_received() {
    static const PlainMethod method("data_received", data_received);
    return method;
}

int set_attribute_of_protocol(PyObject* self, PyObject* name, PyObject* value) {
    return plain_data_received().set_attribute(self, name, value, protocol_of(self)->own_data_received);
}

int traverse_protocol(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(protocol_of(self)->reader_reference);
    return 0;
}

int clear_protocol(PyObject* self) {
    Py_CLEAR(protocol_of(self)->reader_reference);
    return 0;
}

void deallocate_protocol(PyObject* self) {
    PyObject_GC_UnTrack(self);
    clear_protocol(self);
    Py_TYPE(self)->tp_free(self);
}

PyMethodDef protocol_methods[] = {
    {"data_received", data_received, METH_O, "data_received($self, data, /)\n--\n\nFeed the reader."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef protocol_members[] = {
    {"_stream_reader_wr", T_OBJECT, offsetof(ProtocolObject, reader_reference), 0, nullptr},
    {"_paused", T_BOOL, offsetof(ProtocolObject, paused), 0, nullptr},
    {"_connection_lost", T_BOOL, offsetof(ProtocolObject, connection_lost), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

} // namespace

PyObject* protocol_data_received(PyObject* protocol, PyObject* data) {
    const PlainMethod& method = plain_data_received();
    Py_INCREF(protocol); // the method may drop the last other reference
    bool ours = Py_TYPE(protocol)->tp_setattro == set_attribute_of_protocol; // a quick answer for other protocols
    bool direct = ours && method.is_of(Py_TYPE(protocol)) && !protocol_of(protocol)->own_data_received;
    PyObject* result = direct ? data_received(protocol, data) : PyObject_CallMethodOneArg(protocol, method.name, data);
    Py_DECREF(protocol);
    return result;
}

void raise_object(PyObject* exception) {
    Py_INCREF(exception); // the class's __init__() may drop the last other reference
    if (PyExceptionClass_Check(exception))
        PyErr_SetNone(exception);
    else if (PyExceptionInstance_Check(exception))
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
    else
        PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    Py_DECREF(exception);
}

PyTypeObject ReaderType = [] {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "fiberrt._fiberrt.Reader";
    type.tp_doc = "The engine of asyncio.StreamReader.";
    type.tp_basicsize = sizeof(ReaderObject);
    type.tp_dealloc = deallocate;
    type.tp_setattro = set_attribute;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
    type.tp_traverse = traverse;
    type.tp_clear = clear;
    type.tp_methods = methods;
    type.tp_members = members;
    type.tp_getset = properties;
    type.tp_new = PyType_GenericNew;
    return type;
}();

PyTypeObject ReaderProtocolType = [] {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "fiberrt._fiberrt.ReaderProtocol";
    type.tp_doc = "The engine of asyncio.StreamReaderProtocol.";
    type.tp_basicsize = sizeof(ProtocolObject);
    type.tp_dealloc = deallocate_protocol;
    type.tp_setattro = set_attribute_of_protocol;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
    type.tp_traverse = traverse_protocol;
    type.tp_clear = clear_protocol;
    type.tp_methods = protocol_methods;
    type.tp_members = protocol_members;
    type.tp_new = PyType_GenericNew;
    return type;
}();

} // namespace fiberrt_python
