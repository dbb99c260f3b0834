// SPDX-License-Identifier: MIT OR Apache-2.0
#include "transport.h"

#include "fiber.h"
#include "functions.h"

#include <errno.h>
#include <new>
#include <poll.h>
#include <string.h>
#include <structmember.h>
#include <vector>

namespace fiberrt_python {

size_t transport_base_bytes;

bool pending_append(Pending& pending, const char* data, size_t size) {
    if (pending.room - pending.end < size) {
        size_t used = pending.size();
        if (pending.room - used < size || used > pending.room / 2) {
            size_t room = pending.room * 2 > used + size ? pending.room * 2 : used + size;
            auto* memory = static_cast<char*>(PyMem_Malloc(room));
            if (!memory) return PyErr_NoMemory();
            if (used) memcpy(memory, pending.memory + pending.begin, used);
            PyMem_Free(pending.memory);
            pending.memory = memory;
            pending.room = room;
        } else if (used) {
            memmove(pending.memory, pending.memory + pending.begin, used);
        }
        pending.begin = 0;
        pending.end = used;
    }
    memcpy(pending.memory + pending.end, data, size);
    pending.end += size;
    return true;
}

void pending_drop(Pending& pending) {
    PyMem_Free(pending.memory);
    pending = {};
}

PyObject* call(PyObject* self, const Name& name, PyObject* argument, PyObject* second) {
    PyObject* args[] = {Py_NewRef(self), argument, second}; // the method may drop the last other reference
    PyObject* result = PyObject_VectorcallMethod(name.object, args, 1 + (argument ? 1 : 0) + (second ? 1 : 0), nullptr);
    Py_DECREF(self);
    return result;
}

bool fail(TransportObject* transport, const char* what) {
    if (ends_run()) return false;
    PyObject* exception = exception_take();
    PyObject* result = PyObject_CallMethod(object(transport), "_fatal_error", "Os", exception, what);
    Py_DECREF(exception);
    Py_XDECREF(result);
    return result;
}

bool fail_by_errno(TransportObject* transport, const char* what) {
    PyErr_SetFromErrno(PyExc_OSError);
    return fail(transport, what);
}

// ---- Flow control ---------------------------------------------------------------------------------------------------

namespace {

// Tells the protocol to pause or to resume writing. Returns false with an exception set.
bool tell_protocol(TransportObject* stream, bool pause) {
    static const Name pause_writing("pause_writing"), resume_writing("resume_writing"), failed("_flow_control_failed");
    stream->protocol_paused = pause;
    PyObject* result = call(stream->protocol, pause ? pause_writing : resume_writing);
    if (!result) {
        if (ends_run()) return false;
        PyObject* exception = exception_take();
        result = call(object(stream), failed, exception);
        Py_DECREF(exception);
    }
    Py_XDECREF(result);
    return result;
}

} // namespace

bool may_pause_protocol(TransportObject* stream) {
    bool full = Py_ssize_t(stream->waiting_bytes()) > stream->high;
    return !full || stream->protocol_paused || tell_protocol(stream, true);
}

bool may_resume_protocol(TransportObject* stream) {
    bool low = Py_ssize_t(stream->waiting_bytes()) <= stream->low;
    return !low || !stream->protocol_paused || !stream->protocol || tell_protocol(stream, false);
}

bool want_to_write(TransportObject* transport, int (*ready)(Watch&)) {
    if (!transport->writes &&
        !watch_new(&transport->writes, transport->loop, transport->fd, POLLOUT, ready, object(transport)))
        return false;
    watch_want(transport->writes);
    loop_wake(transport->loop); // another fiber may write
    return true;
}

namespace {

PyObject* get_write_buffer_size(PyObject* self, PyObject*) {
    return PyLong_FromSize_t(transport_of(self)->waiting_bytes());
}

PyObject* get_write_buffer_limits(PyObject* self, PyObject*) {
    return Py_BuildValue("nn", transport_of(self)->low, transport_of(self)->high);
}

PyObject* set_limits(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!takes("_set_limits", count, 2, 2)) return nullptr;
    Py_ssize_t low = PyNumber_AsSsize_t(args[0], PyExc_OverflowError);
    Py_ssize_t high = low == -1 && PyErr_Occurred() ? -1 : PyNumber_AsSsize_t(args[1], PyExc_OverflowError);
    if (PyErr_Occurred()) return nullptr;
    transport_of(self)->low = low;
    transport_of(self)->high = high;
    if (transport_of(self)->protocol && !may_pause_protocol(transport_of(self))) return nullptr;
    Py_RETURN_NONE;
}

// ---- The types ------------------------------------------------------------------------------------------------------

int initialize(PyObject* self, PyObject* args, PyObject*) {
    TransportObject* transport = transport_of(self);
    PyObject* loop;
    int fd, is_socket, is_pipe;
    if (!PyArg_ParseTuple(args, "O!ipp", &LoopType, &loop, &fd, &is_socket, &is_pipe)) return -1;
    PyObject* context = PyContext_CopyCurrent();
    if (!context) return -1;
    Py_XSETREF(transport->context, context);
    Py_XSETREF(reinterpret_cast<PyObject*&>(transport->loop), Py_NewRef(loop));
    transport->fd = fd;
    transport->is_socket = is_socket;
    transport->is_pipe = is_pipe;
    transport->high = 64 * 1024;
    transport->low = transport->high / 4;
    return 0;
}

PyObject* set_protocol(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!takes("_set_protocol", count, 2, 2)) return nullptr;
    Py_XSETREF(transport_of(self)->protocol, Py_NewRef(args[0]));
    transport_of(self)->buffered = args[1] == Py_True;
    Py_RETURN_NONE;
}

PyObject* stop_reading(PyObject* self, PyObject*) {
    if (Watch* watch = transport_of(self)->reads) watch_free(watch);
    pending_drop(transport_of(self)->unread);
    Py_RETURN_NONE;
}

void drop_datagrams(TransportObject* transport) {
    HandleQueue* datagrams = transport->datagrams;
    transport->datagrams = nullptr;
    transport->datagram_bytes = 0;
    while (datagrams && datagrams->size()) Py_DECREF(datagrams->pop());
    delete datagrams;
}

PyObject* stop_writing(PyObject* self, PyObject*) {
    if (Watch* watch = transport_of(self)->writes) watch_free(watch);
    pending_drop(transport_of(self)->pending);
    drop_datagrams(transport_of(self));
    Py_RETURN_NONE;
}

PyObject* is_closing(PyObject* self, PyObject*) { return PyBool_FromLong(transport_of(self)->closing); }

// The transport is closed: drops what it has of the connection.
PyObject* end(PyObject* self, PyObject*) {
    TransportObject* stream = transport_of(self);
    stop_reading(self, nullptr);
    stop_writing(self, nullptr);
    Py_CLEAR(stream->protocol);
    Py_CLEAR(stream->empty_waiter);
    PyObject* loop = reinterpret_cast<PyObject*>(stream->loop);
    stream->loop = nullptr;
    Py_XDECREF(loop);
    Py_RETURN_NONE;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    TransportObject* stream = transport_of(self);
    Py_VISIT(reinterpret_cast<PyObject*>(stream->loop));
    Py_VISIT(stream->protocol);
    Py_VISIT(stream->context);
    Py_VISIT(stream->empty_waiter);
    Py_VISIT(stream->extra);
    Py_VISIT(stream->peer);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

int clear(PyObject* self) {
    Py_XDECREF(end(self, nullptr));
    Py_CLEAR(transport_of(self)->context);
    Py_CLEAR(transport_of(self)->extra);
    Py_CLEAR(transport_of(self)->peer);
    return 0;
}

void deallocate(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (transport_of(self)->weak_references) PyObject_ClearWeakRefs(self);
    clear(self);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

} // namespace

// Compares a slot that the types made here have, and other types, such as mocks, do not.
bool is_transport(PyObject* object) {
    PyTypeObject* base = Py_TYPE(object)->tp_base;
    return base && base->tp_clear == clear;
}

namespace {

PyMethodDef common_methods[] = {
    {"is_closing", is_closing, METH_NOARGS, "is_closing($self, /)\n--\n\nWhether the transport is closed or closing."},
    {"_set_protocol", as_method(set_protocol), METH_FASTCALL, nullptr},
    {"_stop_reading", stop_reading, METH_NOARGS, nullptr},
    {"_stop_writing", stop_writing, METH_NOARGS, nullptr},
    {"_end", end, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef limited_methods[] = {
    {"get_write_buffer_size", get_write_buffer_size, METH_NOARGS,
     "get_write_buffer_size($self, /)\n--\n\nThe number of bytes that wait to be sent."},
    {"get_write_buffer_limits", get_write_buffer_limits, METH_NOARGS,
     "get_write_buffer_limits($self, /)\n--\n\nThe limits of the flow control, in bytes: low and high."},
    {"_set_limits", as_method(set_limits), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// The offsets are those in TransportObject: transport_type() adds the size of the base class.
PyMemberDef members[] = {
    {"_loop", T_OBJECT, offsetof(TransportObject, loop), READONLY, nullptr},
    {"_protocol", T_OBJECT, offsetof(TransportObject, protocol), READONLY, nullptr},
    {"_extra", T_OBJECT, offsetof(TransportObject, extra), 0, nullptr},
    {"_empty_waiter", T_OBJECT, offsetof(TransportObject, empty_waiter), 0, nullptr},
    {"_conn_lost", T_LONG, offsetof(TransportObject, connection_lost), 0, nullptr},
    {"_sock_fd", T_INT, offsetof(TransportObject, fd), READONLY, nullptr},
    {"_address", T_OBJECT, offsetof(TransportObject, peer), 0, nullptr},
    {"_family", T_INT, offsetof(TransportObject, family), 0, nullptr},
    {"_connected", T_BOOL, offsetof(TransportObject, connected), 0, nullptr},
    {"_closing", T_BOOL, offsetof(TransportObject, closing), 0, nullptr},
    {"_eof", T_BOOL, offsetof(TransportObject, eof), 0, nullptr},
    {"_paused", T_BOOL, offsetof(TransportObject, paused), READONLY, nullptr},
    {"_protocol_paused", T_BOOL, offsetof(TransportObject, protocol_paused), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TransportObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

template <typename Function>
void* slot(Function* function) {
    return reinterpret_cast<void*>(function);
}

// transport_type(name, base, kinds): makes the type of a transport: of its own name, derived from one of asyncio's
// classes for transports, so that asyncio's own code, which asks for it, accepts these transports. kinds: a string,
// with r: it receives a stream; w: it sends a stream; d: it receives and sends datagrams. The first base must be the
// largest.
PyObject* transport_type(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!takes("transport_type", count, 3, 3)) return nullptr;
    const char* name = PyUnicode_AsUTF8(args[0]);
    const char* kinds = name ? PyUnicode_AsUTF8(args[2]) : nullptr;
    if (!kinds) return nullptr;
    size_t bytes = PyType_Check(args[1]) ? size_t(reinterpret_cast<PyTypeObject*>(args[1])->tp_basicsize) : SIZE_MAX;
    if (!transport_base_bytes && bytes != SIZE_MAX) {
        transport_base_bytes = bytes;
        for (PyMemberDef* member = members; member->name; member++) member->offset += Py_ssize_t(bytes);
    }
    if (bytes > transport_base_bytes) return PyErr_Format(PyExc_TypeError, "transport_type() takes a class of asyncio");
    // The types live as long as the process, like their methods.
    auto* methods = new (std::nothrow) std::vector<PyMethodDef>;
    if (!methods) return PyErr_NoMemory();
    auto add = [&](char kind, const PyMethodDef* table) {
        if (!strchr(kinds, kind)) return;
        while (table->ml_name) methods->push_back(*table++);
    };
    add(*kinds, common_methods);
    add('r', reading_methods);
    add('w', writing_methods);
    add('d', datagram_methods);
    if (!strchr(kinds, 'r') || kinds[1]) add(*kinds, limited_methods);
    methods->push_back({});
    PyType_Slot slots[] = {
        {Py_tp_doc, const_cast<char*>("The engine of a transport of fiberrt.aio.")},
        {Py_tp_dealloc, slot(deallocate)},
        {Py_tp_traverse, slot(traverse)},
        {Py_tp_clear, slot(clear)},
        {Py_tp_init, slot(initialize)},
        {Py_tp_new, slot(PyType_GenericNew)},
        {Py_tp_methods, methods->data()},
        {Py_tp_members, members},
        {Py_tp_setattro, slot(strchr(kinds, 'w') ? set_attribute_of_writer : PyObject_GenericSetAttr)},
        {0, nullptr},
    };
    PyType_Spec spec = {name, int(transport_base_bytes + sizeof(TransportObject)), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, slots};
    return PyType_FromSpecWithBases(&spec, args[1]);
}

} // namespace

PyMethodDef transport_functions[] = {
    {"transport_type", as_method(transport_type), METH_FASTCALL,
     "transport_type(name, base, kinds, /)\n--\n\nReturn a new base class of transports, derived from one of "
     "asyncio's.\nkinds: of r, receives a stream; w, sends a stream; d, does both with datagrams."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
