// SPDX-License-Identifier: MIT OR Apache-2.0
// Received and sent datagrams of fiberrt.aio's transport.
#include "arguments.h"
#include "fiber.h"
#include "functions.h"
#include "socket_address.h"
#include "transport.h"

#include <errno.h>
#include <new>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

namespace fiberrt_python {

namespace {

constexpr int most_at_once = 16;   // datagrams for one event, so that other events have their turn
constexpr size_t header_bytes = 8; // counted for each datagram that waits, as asyncio does

// Gives the error to the protocol. Returns false with an exception set.
bool tell_error(TransportObject* transport, int error) {
    static const Name error_received("error_received");
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    PyObject* exception = exception_take();
    PyObject* result = call(transport->protocol, error_received, exception);
    Py_DECREF(exception);
    Py_XDECREF(result);
    return result;
}

bool receive(TransportObject* transport) {
    static const Name datagram_received("datagram_received"), receive_slowly("_receive_slowly");
    if (!socket_address_known(transport->family)) { // the socket object knows all addresses
        PyObject* result = call(object(transport), receive_slowly);
        Py_XDECREF(result);
        return result;
    }
    for (int i = 0; i < most_at_once && !transport->connection_lost && !transport->closing; i++) {
        LoopObject* loop = transport->loop;
        if (!loop->scratch) loop->scratch = static_cast<char*>(PyMem_Malloc(scratch_bytes));
        if (!loop->scratch) {
            PyErr_NoMemory();
            return fail(transport, "Fatal read error on datagram transport");
        }
        SocketAddress from = {};
        socklen_t length = sizeof from;
        ssize_t got = recvfrom(transport->fd, loop->scratch, scratch_bytes, MSG_DONTWAIT, &from.any, &length);
        if (got < 0) {
            if (errno == EAGAIN || errno == EINTR) return true;
            return tell_error(transport, errno);
        }
        PyObject* data = PyBytes_FromStringAndSize(loop->scratch, got);
        PyObject* address = data ? socket_address(from, length) : nullptr;
        PyObject* result = address ? call(transport->protocol, datagram_received, data, address) : nullptr;
        Py_XDECREF(data);
        Py_XDECREF(address);
        if (!result) return false;
        Py_DECREF(result);
    }
    return true;
}

int ready_to_receive(Watch& watch) {
    auto* transport = transport_of(watch.owner);
    bool closed = watch.result == -EBADF; // by the program: as with epoll, there are no more events
    if (closed || transport->connection_lost || transport->closing) {
        watch_not_want(&watch);
        return 0;
    }
    return for_protocol(transport, receive);
}

enum class Sent { all, later, failed }; // failed: with an exception set that ends the loop's run

// Sends a datagram, or gives the error to the protocol.
Sent send_one(TransportObject* transport, PyObject* data, PyObject* address) {
    static const Name send_slowly("_send_slowly");
    SocketAddress to;
    socklen_t length = 0;
    if (!transport->connected && !socket_address_parse(transport->family, address, to, length)) {
        PyObject* later = call(object(transport), send_slowly, data, address);
        Py_XDECREF(later);
        return !later ? Sent::failed : later == Py_True ? Sent::later : Sent::all;
    }
    Py_buffer bytes;
    if (PyObject_GetBuffer(data, &bytes, PyBUF_SIMPLE) < 0) return Sent::failed;
    ssize_t sent = sendto(transport->fd, bytes.buf, size_t(bytes.len), MSG_NOSIGNAL | MSG_DONTWAIT,
                          length ? &to.any : nullptr, length);
    int error = errno;
    PyBuffer_Release(&bytes);
    if (sent >= 0) return Sent::all;
    if (error == EAGAIN || error == EINTR) return Sent::later;
    return tell_error(transport, error) ? Sent::all : Sent::failed;
}

bool send_waiting(TransportObject* transport) {
    static const Name written("_all_written");
    while (transport->datagrams && transport->datagrams->size()) {
        PyObject* first = Py_NewRef(transport->datagrams->at(0));
        Sent sent = send_one(transport, PyTuple_GET_ITEM(first, 0), PyTuple_GET_ITEM(first, 1));
        if (sent == Sent::later) {
            Py_DECREF(first);
            break;
        }
        // The protocol may have aborted the transport.
        if (transport->datagrams && transport->datagrams->size() && transport->datagrams->at(0) == first) {
            transport->datagram_bytes -= size_t(PyBytes_GET_SIZE(PyTuple_GET_ITEM(first, 0))) + header_bytes;
            Py_DECREF(transport->datagrams->pop());
        }
        Py_DECREF(first);
        if (sent == Sent::failed) return false;
    }
    if (!transport->writes) return true;               // aborted
    if (!may_resume_protocol(transport)) return false; // it may send more
    if (!transport->writes || (transport->datagrams && transport->datagrams->size())) return true;
    watch_not_want(transport->writes);
    PyObject* result = call(object(transport), written);
    Py_XDECREF(result);
    return result;
}

int ready_to_send(Watch& watch) {
    auto* transport = transport_of(watch.owner);
    if (transport->connection_lost) {
        watch_not_want(&watch);
        return 0;
    }
    return for_protocol(transport, send_waiting);
}

bool keep(TransportObject* transport, PyObject* data, PyObject* address) {
    if (!transport->datagrams && !(transport->datagrams = new (std::nothrow) HandleQueue)) {
        PyErr_NoMemory();
        return false;
    }
    PyObject* bytes = PyBytes_FromObject(data); // the caller may change the data
    PyObject* datagram = bytes ? PyTuple_Pack(2, bytes, address) : nullptr;
    bool kept = datagram && transport->datagrams->push(datagram);
    if (kept) transport->datagram_bytes += size_t(PyBytes_GET_SIZE(bytes)) + header_bytes;
    Py_XDECREF(datagram);
    Py_XDECREF(bytes);
    return kept && want_to_write(transport, ready_to_send) && may_pause_protocol(transport);
}

PyObject* send_to(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    static const Name lost("_written_when_lost");
    TransportObject* transport = transport_of(self);
    PyObject* given[2] = {};
    if (!take_arguments("sendto", args, count, names, {"data", "addr"}, given, 1)) return nullptr;
    PyObject* data = given[0];
    PyObject* address = given[1] ? given[1] : Py_None;
    if (!PyBytes_Check(data) && !PyByteArray_Check(data) && !PyMemoryView_Check(data))
        return PyErr_Format(PyExc_TypeError, "data argument must be a bytes-like object, not '%.200s'",
                            Py_TYPE(data)->tp_name);
#if PY_VERSION_HEX < 0x030D0000 // as asyncio: later versions send an empty datagram
    Py_ssize_t size = PyObject_Size(data);
    if (size < 0) return nullptr;
    if (!size) Py_RETURN_NONE;
#endif
    PyObject* peer = transport->peer;
    if (peer && peer != Py_None) {
        int same = address == Py_None ? 1 : PyObject_RichCompareBool(address, peer, Py_EQ);
        if (same < 0) return nullptr;
        if (!same) return PyErr_Format(PyExc_ValueError, "Invalid address: must be None or %S", peer);
        address = peer;
    }
    if (transport->connection_lost || !transport->loop) return call(self, lost);
    if (!transport->datagrams || !transport->datagrams->size()) {
        Sent sent = send_one(transport, data, address);
        if (sent == Sent::failed) return nullptr;
        if (sent == Sent::all) Py_RETURN_NONE;
    }
    if (!keep(transport, data, address)) return nullptr;
    Py_RETURN_NONE;
}

PyObject* start_receiving(PyObject* self, PyObject*) {
    TransportObject* transport = transport_of(self);
    if (transport->closing || transport->reads || !transport->loop) Py_RETURN_NONE;
    if (!watch_new(&transport->reads, transport->loop, transport->fd, POLLIN, ready_to_receive, self)) return nullptr;
    watch_want(transport->reads);
    loop_wake(transport->loop);
    Py_RETURN_NONE;
}

} // namespace

PyMethodDef datagram_methods[] = {
    {"sendto", as_method(send_to), METH_FASTCALL | METH_KEYWORDS,
     "sendto($self, data, addr=None)\n--\n\nSend a datagram, or keep it until there is room to send it. addr: where "
     "to; "
     "None: to the peer.\nThe protocol's error_received() gets errors."},
    {"_start_reading", start_receiving, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
