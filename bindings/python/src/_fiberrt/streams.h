// SPDX-License-Identifier: MIT OR Apache-2.0
// The types from which the StreamReader, StreamReaderProtocol and StreamWriter of fiberrt.aio derive.
#pragma once

#include "coroutine.h"

namespace fiberrt_python {

struct ReaderObject {
    PyObject_HEAD PyObject* buffer; // a bytearray, or null: empty
    PyObject* chunk;                // the data, when it is one bytes object: then the buffer is empty; or null
    PyObject* waiter;               // the future of the waiting read; null or None: none waits
    PyObject* exception;
    PyObject* transport;
    PyObject* loop;
    PyObject* limit_given; // as it has been set
    size_t limit;          // in bytes
    size_t taken;          // bytes that reads have taken so far
    bool eof;
    bool paused;        // the transport: by the reader
    bool own_feed_data; // the program has set the instance's attribute feed_data
};

struct ProtocolObject {
    PyObject_HEAD PyObject* reader_reference; // weak
    bool paused;                              // writing is
    bool connection_lost;
    bool own_data_received; // the program has set the instance's attribute data_received
};

inline bool is_none(PyObject* object) { return !object || object == Py_None; }

// Raises an exception, an instance or a class, as `raise` does.
void raise_object(PyObject* exception);

// Calls data_received() of any protocol. Returns its result, or null with an exception set.
PyObject* protocol_data_received(PyObject* protocol, PyObject* data);

extern PyTypeObject ReaderType, ReaderProtocolType, WriterType;

} // namespace fiberrt_python
