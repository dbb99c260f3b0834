// SPDX-License-Identifier: MIT OR Apache-2.0
// The common parts of fiberrt.aio's transports: their object, calls of the protocol, and flow control. transport.cc makes
// a type for each kind of transport. The Python classes derived from these types do the rare calls, and handle errors.
// The socket or file object owns the descriptor.
#pragma once

#include "loop.h"

#include <stddef.h>

namespace fiberrt_python {

// Bytes that wait to be sent, or to be given to the protocol.
struct Pending {
    char* memory;
    size_t begin, end, room;
    size_t size() const { return end - begin; }
};

bool pending_append(Pending& pending, const char* data, size_t size); // returns false with MemoryError set
void pending_drop(Pending& pending);

// The part of a transport that follows asyncio's base class.
struct TransportObject {
    LoopObject* loop; // null when the transport is closed, like protocol and empty_waiter
    PyObject* protocol;
    PyObject* extra;
    PyObject* context;      // of the protocol's callbacks
    PyObject* empty_waiter; // a future for the time when all has been written, or null
    PyObject* peer;         // of datagrams: the only address to send to, or null
    PyObject* weak_references;
    Watch* reads;
    Watch* writes;
    Pending unread;         // received for a protocol that has paused reading meanwhile
    Pending pending;        // to be sent
    HandleQueue* datagrams; // to be sent: tuples of the data and the address; null until used
    size_t datagram_bytes;
    Py_ssize_t low, high; // limits of waiting_bytes()
    long connection_lost; // above 0: the call of connection_lost() is scheduled; then it counts further writes
    int fd;
    int family; // of datagrams
    bool is_socket;
    bool is_pipe;   // a transport for pipes: of a pipe, a socket or a character device
    bool connected; // of datagrams: the socket has a peer
    bool buffered;  // the protocol is a BufferedProtocol
    bool closing;
    bool eof; // write_eof() has been called
    bool paused;
    bool protocol_paused;
    bool own_write; // the program has set the instance's attribute write
    bool held;      // reads has reported an event while reading was paused
    size_t waiting_bytes() const { return pending.size() + datagram_bytes; }
};

extern size_t transport_base_bytes; // of an object of asyncio's base classes

inline TransportObject* transport_of(PyObject* self) {
    return reinterpret_cast<TransportObject*>(reinterpret_cast<char*>(self) + transport_base_bytes);
}
inline PyObject* object(TransportObject* transport) {
    return reinterpret_cast<PyObject*>(reinterpret_cast<char*>(transport) - transport_base_bytes);
}

// Whether an object is a transport of this module. Its methods are not overridden.
bool is_transport(PyObject* object);

// A method's name.
struct Name {
    explicit Name(const char* text) : object(PyUnicode_InternFromString(text)) {}
    PyObject* object;
};

PyObject* call(PyObject* self, const Name& name, PyObject* argument = nullptr, PyObject* second = nullptr);

// Closes the transport for the exception that is set. Returns false with an exception set that ends the loop's run.
bool fail(TransportObject* transport, const char* what);
// Likewise for errno.
bool fail_by_errno(TransportObject* transport, const char* what);

// Flow control of writing. They return false with an exception set.
bool may_pause_protocol(TransportObject* transport);
bool may_resume_protocol(TransportObject* transport);
// Waits until the descriptor can be written, and calls ready then.
bool want_to_write(TransportObject* transport, int (*ready)(Watch&));

// Calls a function in the context of the protocol's callbacks. Returns 0, or -1 with an exception set.
template <typename Function>
int for_protocol(TransportObject* transport, Function function) {
    PyObject* self = Py_NewRef(object(transport)); // the callbacks may close it
    PyObject* context = Py_NewRef(transport->context);
    PyObject* done = in_context(context, [=] { return function(transport) ? Py_NewRef(Py_None) : nullptr; });
    Py_DECREF(context);
    Py_DECREF(self);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

// Calls write() of any transport. Returns its result, or null with an exception set.
PyObject* transport_write(PyObject* transport, PyObject* data);

// tp_setattro of transports that send a stream.
int set_attribute_of_writer(PyObject* self, PyObject* name, PyObject* value);

// The methods of a kind of transports.
extern PyMethodDef reading_methods[]; // of those that receive a stream
extern PyMethodDef writing_methods[]; // of those that send a stream
extern PyMethodDef datagram_methods[];

} // namespace fiberrt_python
