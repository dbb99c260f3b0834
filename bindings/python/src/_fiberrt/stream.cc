// SPDX-License-Identifier: MIT OR Apache-2.0
// The frequent part of fiberrt.aio's transport for stream sockets: received data, writes, and their flow control. The
// rest is in Python (fiberrt/_transports.py), in the class derived from this type. The socket object owns the
// descriptor.
#include "functions.h"
#include "loop.h"
#include "waiting.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>
#include <sys/socket.h>

namespace fiberrt_python {

namespace {

// Bytes that wait for room in the socket.
struct Pending {
    char* memory;
    size_t begin, end, room;
    size_t size() const { return end - begin; }
};

// The part of an object that follows asyncio's base class.
struct StreamObject {
    LoopObject* loop; // null when the transport is closed, like protocol and empty_waiter
    PyObject* protocol;
    PyObject* extra;
    PyObject* context;      // of the protocol's callbacks
    PyObject* empty_waiter; // a future for the time when all has been written, or null
    PyObject* weak_references;
    Watch* reads;
    Watch* writes;
    Pending unread; // received for a protocol that has paused reading meanwhile
    Pending pending;
    Py_ssize_t low, high; // limits of pending, in bytes
    long connection_lost; // above 0: the call of connection_lost() is scheduled; then it counts further writes
    int fd;
    bool buffered; // the protocol is a BufferedProtocol
    bool closing;
    bool eof; // write_eof() has been called
    bool paused;
    bool protocol_paused;
    bool held; // reads has reported an event while reading was paused
};

size_t base_bytes; // of an object of the base class

StreamObject* stream_of(PyObject* self) {
    return reinterpret_cast<StreamObject*>(reinterpret_cast<char*>(self) + base_bytes);
}
PyObject* object(StreamObject* stream) {
    return reinterpret_cast<PyObject*>(reinterpret_cast<char*>(stream) - base_bytes);
}

// A method's name.
struct Name {
    explicit Name(const char* text) : object(PyUnicode_InternFromString(text)) {}
    PyObject* object;
};

PyObject* call(PyObject* self, const Name& name, PyObject* argument = nullptr) {
    PyObject* args[] = {Py_NewRef(self), argument}; // the method may drop the last other reference
    PyObject* result = PyObject_VectorcallMethod(name.object, args, argument ? 2 : 1, nullptr);
    Py_DECREF(self);
    return result;
}

// Closes the transport for the exception that is set. Returns false with an exception set that ends the loop's run.
bool fail(StreamObject* stream, const char* what) {
    if (ends_run()) return false;
    PyObject* exception = exception_take();
    PyObject* result = PyObject_CallMethod(object(stream), "_fatal_error", "Os", exception, what);
    Py_DECREF(exception);
    Py_XDECREF(result);
    return result;
}

bool fail_by_errno(StreamObject* stream, const char* what) {
    PyErr_SetFromErrno(PyExc_OSError);
    return fail(stream, what);
}

// ---- Receiving ------------------------------------------------------------------------------------------------------
//
// The watch of a quiet connection receives into a small buffer, in one operation. After a receive that fills it, the
// watch polls, and data goes through the loop's large buffer, until a receive returns less than the small buffer holds.

constexpr size_t small_bytes = 2048;

constexpr const char* read_failed = "Fatal read error on socket transport";

bool on_end(StreamObject* stream) {
    static const Name on_eof("_on_eof");
    PyObject* result = call(object(stream), on_eof);
    Py_XDECREF(result);
    return result;
}

bool give_bytes(StreamObject* stream, const char* data, size_t size) {
    static const Name data_received("data_received");
    PyObject* bytes = PyBytes_FromStringAndSize(data, Py_ssize_t(size));
    PyObject* result = bytes ? call(stream->protocol, data_received, bytes) : nullptr;
    Py_XDECREF(bytes);
    if (!result) return fail(stream, "Fatal error: protocol.data_received() call failed.");
    Py_DECREF(result);
    return true;
}

bool append(Pending& pending, const char* data, size_t size);
void drop(Pending& pending);

// Copies the data into buffers of a BufferedProtocol. If it pauses reading in between, the rest waits; it may also set
// another protocol.
bool give_to_buffers(StreamObject* stream, const char* data, size_t size) {
    static const Name get_buffer("get_buffer"), buffer_updated("buffer_updated");
    static PyObject* any_size = PyLong_FromLong(-1);
    while (size) {
        PyObject* given = call(stream->protocol, get_buffer, any_size);
        Py_buffer buffer;
        bool usable = given && PyObject_GetBuffer(given, &buffer, PyBUF_WRITABLE) == 0;
        Py_XDECREF(given);
        if (usable && buffer.len == 0) {
            PyBuffer_Release(&buffer);
            PyErr_SetString(PyExc_RuntimeError, "get_buffer() returned an empty buffer");
            usable = false;
        }
        if (!usable) return fail(stream, "Fatal error: protocol.get_buffer() call failed.");
        size_t some = size_t(buffer.len) < size ? size_t(buffer.len) : size;
        memcpy(buffer.buf, data, some);
        PyBuffer_Release(&buffer);
        PyObject* count = PyLong_FromSize_t(some);
        PyObject* result = count ? call(stream->protocol, buffer_updated, count) : nullptr;
        Py_XDECREF(count);
        if (!result) return fail(stream, "Fatal error: protocol.buffer_updated() call failed.");
        Py_DECREF(result);
        if (stream->connection_lost || stream->closing || !stream->protocol) return true;
        data += some;
        size -= some;
        if (size && stream->paused) return append(stream->unread, data, size);
        if (size && !stream->buffered) return give_bytes(stream, data, size);
    }
    return true;
}

bool give(StreamObject* stream, const char* data, size_t size) {
    return stream->buffered ? give_to_buffers(stream, data, size) : give_bytes(stream, data, size);
}

// Gives what is left from before a pause.
bool give_unread(StreamObject* stream) {
    Pending unread = stream->unread;
    stream->unread = {};
    bool fine = give(stream, unread.memory + unread.begin, unread.size());
    drop(unread);
    return fine;
}

bool receive_much(StreamObject* stream) {
    LoopObject* loop = stream->loop;
    if (!loop->scratch) loop->scratch = static_cast<char*>(PyMem_Malloc(scratch_bytes));
    if (!loop->scratch) {
        PyErr_NoMemory();
        return fail(stream, read_failed);
    }
    ssize_t got = recv(stream->fd, loop->scratch, scratch_bytes, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR || fail_by_errno(stream, read_failed);
    if (got == 0) return on_end(stream);
    if (size_t(got) < small_bytes) watch_set_buffer(stream->reads, small_bytes);
    return give(stream, loop->scratch, size_t(got));
}

bool take_received(StreamObject* stream) {
    int64_t got = stream->reads->result;
    if (got == 0) return on_end(stream);
    if (got < 0) {
        errno = int(-got);
        return fail_by_errno(stream, read_failed);
    }
    char received[small_bytes]; // the protocol's callbacks may wait, or free the buffer
    memcpy(received, stream->reads->buffer, size_t(got));
    if (size_t(got) == small_bytes) watch_set_buffer(stream->reads, 0);
    return give(stream, received, size_t(got));
}

// Calls a function in the context of the protocol's callbacks. Returns 0, or -1 with an exception set.
template <typename Function>
int for_protocol(StreamObject* stream, Function function) {
    PyObject* self = Py_NewRef(object(stream)); // the callbacks may close it
    PyObject* context = Py_NewRef(stream->context);
    PyObject* done = in_context(context, [=] { return function(stream) ? Py_NewRef(Py_None) : nullptr; });
    Py_DECREF(context);
    Py_DECREF(self);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int ready_to_read(Watch& watch) {
    auto* stream = stream_of(watch.owner);
    if (stream->connection_lost || stream->closing || stream->paused) {
        watch_not_want(&watch);
        stream->held = true;
        return 0;
    }
    bool rest = stream->unread.size();
    if (!rest) stream->held = false;
    return for_protocol(stream, rest ? give_unread : watch.buffer ? take_received : receive_much);
}

// ---- Sending --------------------------------------------------------------------------------------------------------

bool append(Pending& pending, const char* data, size_t size) {
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

void drop(Pending& pending) {
    PyMem_Free(pending.memory);
    pending = {};
}

// Tells the protocol to pause or to resume writing. Returns false with an exception set.
bool tell_protocol(StreamObject* stream, bool pause) {
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

bool may_pause_protocol(StreamObject* stream) {
    bool full = Py_ssize_t(stream->pending.size()) > stream->high;
    return !full || stream->protocol_paused || tell_protocol(stream, true);
}

bool may_resume_protocol(StreamObject* stream) {
    bool low = Py_ssize_t(stream->pending.size()) <= stream->low;
    return !low || !stream->protocol_paused || !stream->protocol || tell_protocol(stream, false);
}

int ready_to_write(Watch& watch);

// Returns false with an exception set.
bool want_to_write(StreamObject* stream) {
    if (!stream->writes &&
        !watch_new(&stream->writes, stream->loop, stream->fd, POLLOUT, ready_to_write, object(stream)))
        return false;
    watch_want(stream->writes);
    loop_wake(stream->loop); // another fiber may write
    return true;
}

constexpr const char* write_failed = "Fatal write error on socket transport";

bool send_pending(StreamObject* stream) {
    static const Name written("_all_written");
    Pending& pending = stream->pending;
    if (stream->connection_lost || !pending.size()) {
        watch_not_want(stream->writes);
        return true;
    }
    ssize_t sent = send(stream->fd, pending.memory + pending.begin, pending.size(), MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno == EAGAIN || errno == EINTR) return true;
        watch_not_want(stream->writes);
        drop(pending);
        return fail_by_errno(stream, write_failed);
    }
    pending.begin += size_t(sent);
    if (!pending.size()) drop(pending);
    if (!may_resume_protocol(stream)) return false; // it may write more
    if (pending.size() || !stream->writes) return true;
    watch_not_want(stream->writes);
    PyObject* result = call(object(stream), written);
    Py_XDECREF(result);
    return result;
}

int ready_to_write(Watch& watch) { return for_protocol(stream_of(watch.owner), send_pending); }

// Sends what the socket takes, and keeps the rest. Returns false with an exception set.
bool send_now(StreamObject* stream, const char* data, size_t size) {
    if (!stream->pending.size()) {
        ssize_t sent = send(stream->fd, data, size, MSG_NOSIGNAL);
        if (sent == ssize_t(size)) return true;
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR) return fail_by_errno(stream, write_failed);
            sent = 0;
        }
        data += sent;
        size -= size_t(sent);
    }
    return append(stream->pending, data, size) && want_to_write(stream) && may_pause_protocol(stream);
}

// Whether the transport accepts data. Sets an exception if it never does.
bool takes_data(StreamObject* stream, const char* call_name) {
    if (stream->eof) {
        PyErr_Format(PyExc_RuntimeError, "Cannot call %s() after write_eof()", call_name);
        return false;
    }
    if (!stream->empty_waiter || stream->empty_waiter == Py_None) return true;
    PyErr_Format(PyExc_RuntimeError, "unable to %s; sendfile is in progress", call_name);
    return false;
}

PyObject* write(PyObject* self, PyObject* data) {
    StreamObject* stream = stream_of(self);
    if (!PyBytes_Check(data) && !PyByteArray_Check(data) && !PyMemoryView_Check(data))
        return PyErr_Format(PyExc_TypeError, "data argument must be a bytes-like object, not '%.200s'",
                            Py_TYPE(data)->tp_name);
    if (!takes_data(stream, "write")) return nullptr;
    Py_buffer buffer;
    if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    bool fine = true;
    if (buffer.len == 0) {
        // as in asyncio: no data is no write
    } else if (stream->connection_lost || !stream->loop) {
        static const Name lost("_written_when_lost");
        PyObject* result = call(self, lost);
        fine = result;
        Py_XDECREF(result);
    } else {
        fine = send_now(stream, static_cast<char*>(buffer.buf), size_t(buffer.len));
    }
    PyBuffer_Release(&buffer);
    if (!fine) return nullptr;
    Py_RETURN_NONE;
}

PyObject* writelines(PyObject* self, PyObject* list) {
    if (!takes_data(stream_of(self), "writelines")) return nullptr;
    PyObject* none = PyBytes_FromStringAndSize(nullptr, 0);
    PyObject* all = none ? PyObject_CallMethod(none, "join", "O", list) : nullptr;
    Py_XDECREF(none);
    PyObject* result = all ? write(self, all) : nullptr;
    Py_XDECREF(all);
    return result;
}

// ---- The type -------------------------------------------------------------------------------------------------------

int initialize(PyObject* self, PyObject* args, PyObject*) {
    StreamObject* stream = stream_of(self);
    PyObject* loop;
    int fd;
    if (!PyArg_ParseTuple(args, "O!i", &LoopType, &loop, &fd)) return -1;
    PyObject* context = PyContext_CopyCurrent();
    if (!context) return -1;
    Py_XSETREF(stream->context, context);
    Py_XSETREF(reinterpret_cast<PyObject*&>(stream->loop), Py_NewRef(loop));
    stream->fd = fd;
    stream->high = 64 * 1024;
    stream->low = stream->high / 4;
    return 0;
}

PyObject* set_protocol(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!takes("_set_protocol", count, 2, 2)) return nullptr;
    Py_XSETREF(stream_of(self)->protocol, Py_NewRef(args[0]));
    stream_of(self)->buffered = args[1] == Py_True;
    Py_RETURN_NONE;
}

// Begins to receive, unless reading is paused or the transport is being closed.
PyObject* start_reading(PyObject* self, PyObject*) {
    StreamObject* stream = stream_of(self);
    if (stream->closing || stream->paused || !stream->loop) Py_RETURN_NONE;
    if (!stream->reads) {
        if (!watch_new(&stream->reads, stream->loop, stream->fd, POLLIN, ready_to_read, self)) return nullptr;
        watch_set_buffer(stream->reads, small_bytes);
    }
    if (stream->held || stream->unread.size())
        watch_report_again(stream->reads);
    else
        watch_want(stream->reads);
    loop_wake(stream->loop);
    Py_RETURN_NONE;
}

PyObject* stop_reading(PyObject* self, PyObject*) {
    if (Watch* watch = stream_of(self)->reads) watch_free(watch);
    drop(stream_of(self)->unread);
    Py_RETURN_NONE;
}

PyObject* stop_writing(PyObject* self, PyObject*) {
    if (Watch* watch = stream_of(self)->writes) watch_free(watch);
    drop(stream_of(self)->pending);
    Py_RETURN_NONE;
}

// A poll under way is kept, because reading may be resumed soon.
PyObject* pause(PyObject* self, PyObject*) {
    StreamObject* stream = stream_of(self);
    stream->paused = true;
    if (stream->reads) watch_not_want(stream->reads);
    Py_RETURN_NONE;
}

PyObject* resume(PyObject* self, PyObject*) {
    stream_of(self)->paused = false;
    return start_reading(self, nullptr);
}

PyObject* is_closing(PyObject* self, PyObject*) { return PyBool_FromLong(stream_of(self)->closing); }

PyObject* is_reading(PyObject* self, PyObject*) {
    return PyBool_FromLong(!stream_of(self)->closing && !stream_of(self)->paused);
}

PyObject* get_write_buffer_size(PyObject* self, PyObject*) {
    return PyLong_FromSize_t(stream_of(self)->pending.size());
}

PyObject* get_write_buffer_limits(PyObject* self, PyObject*) {
    return Py_BuildValue("nn", stream_of(self)->low, stream_of(self)->high);
}

PyObject* set_limits(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!takes("_set_limits", count, 2, 2)) return nullptr;
    Py_ssize_t low = PyNumber_AsSsize_t(args[0], PyExc_OverflowError);
    Py_ssize_t high = low == -1 && PyErr_Occurred() ? -1 : PyNumber_AsSsize_t(args[1], PyExc_OverflowError);
    if (PyErr_Occurred()) return nullptr;
    stream_of(self)->low = low;
    stream_of(self)->high = high;
    if (stream_of(self)->protocol && !may_pause_protocol(stream_of(self))) return nullptr;
    Py_RETURN_NONE;
}

// The transport is closed: drops what it has of the connection.
PyObject* end(PyObject* self, PyObject*) {
    StreamObject* stream = stream_of(self);
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
    StreamObject* stream = stream_of(self);
    Py_VISIT(reinterpret_cast<PyObject*>(stream->loop));
    Py_VISIT(stream->protocol);
    Py_VISIT(stream->context);
    Py_VISIT(stream->empty_waiter);
    Py_VISIT(stream->extra);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

int clear(PyObject* self) {
    Py_XDECREF(end(self, nullptr));
    Py_CLEAR(stream_of(self)->context);
    Py_CLEAR(stream_of(self)->extra);
    return 0;
}

void deallocate(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (stream_of(self)->weak_references) PyObject_ClearWeakRefs(self);
    clear(self);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"write", write, METH_O, "write($self, data, /)\n--\n\nSend the data, or keep it until there is room to send it."},
    {"writelines", writelines, METH_O, "writelines($self, list_of_data, /)\n--\n\nwrite() for several pieces."},
    {"is_closing", is_closing, METH_NOARGS, "is_closing($self, /)\n--\n\nWhether the transport is closed or closing."},
    {"is_reading", is_reading, METH_NOARGS, "is_reading($self, /)\n--\n\nWhether the protocol may receive data."},
    {"get_write_buffer_size", get_write_buffer_size, METH_NOARGS,
     "get_write_buffer_size($self, /)\n--\n\nThe number of bytes that wait to be sent."},
    {"get_write_buffer_limits", get_write_buffer_limits, METH_NOARGS,
     "get_write_buffer_limits($self, /)\n--\n\nThe limits of the flow control, in bytes: low and high."},
    {"_set_protocol", as_method(set_protocol), METH_FASTCALL, nullptr},
    {"_start_reading", start_reading, METH_NOARGS, nullptr},
    {"_stop_reading", stop_reading, METH_NOARGS, nullptr},
    {"_stop_writing", stop_writing, METH_NOARGS, nullptr},
    {"_pause", pause, METH_NOARGS, nullptr},
    {"_resume", resume, METH_NOARGS, nullptr},
    {"_set_limits", as_method(set_limits), METH_FASTCALL, nullptr},
    {"_end", end, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// The offsets are those in StreamObject: make_type() adds the size of the base class.
PyMemberDef members[] = {
    {"_loop", T_OBJECT, offsetof(StreamObject, loop), READONLY, nullptr},
    {"_protocol", T_OBJECT, offsetof(StreamObject, protocol), READONLY, nullptr},
    {"_extra", T_OBJECT, offsetof(StreamObject, extra), 0, nullptr},
    {"_empty_waiter", T_OBJECT, offsetof(StreamObject, empty_waiter), 0, nullptr},
    {"_conn_lost", T_LONG, offsetof(StreamObject, connection_lost), 0, nullptr},
    {"_sock_fd", T_INT, offsetof(StreamObject, fd), READONLY, nullptr},
    {"_closing", T_BOOL, offsetof(StreamObject, closing), 0, nullptr},
    {"_eof", T_BOOL, offsetof(StreamObject, eof), 0, nullptr},
    {"_paused", T_BOOL, offsetof(StreamObject, paused), READONLY, nullptr},
    {"_protocol_paused", T_BOOL, offsetof(StreamObject, protocol_paused), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(StreamObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

template <typename Function>
void* slot(Function* function) {
    return reinterpret_cast<void*>(function);
}

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("The engine of fiberrt.aio's transport for stream sockets.")},
    {Py_tp_dealloc, slot(deallocate)},
    {Py_tp_traverse, slot(traverse)},
    {Py_tp_clear, slot(clear)},
    {Py_tp_init, slot(initialize)},
    {Py_tp_new, slot(PyType_GenericNew)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, nullptr},
};

// stream_type(base): makes the type, once. base is asyncio's class for transports with flow control, so that asyncio's
// own code, which asks for it, accepts these transports.
PyObject* stream_type(PyObject*, PyObject* base) {
    static PyObject* made;
    if (made) return Py_NewRef(made);
    if (!PyType_Check(base)) return PyErr_Format(PyExc_TypeError, "stream_type() takes a class");
    base_bytes = size_t(reinterpret_cast<PyTypeObject*>(base)->tp_basicsize);
    for (PyMemberDef* member = members; member->name; member++) member->offset += Py_ssize_t(base_bytes);
    PyType_Spec spec = {"fiberrt._fiberrt.Stream", int(base_bytes + sizeof(StreamObject)), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, slots};
    made = PyType_FromSpecWithBases(&spec, base);
    return Py_XNewRef(made);
}

} // namespace

PyMethodDef stream_functions[] = {
    {"stream_type", stream_type, METH_O,
     "stream_type(base, /)\n--\n\nReturn the base class of StreamTransport, derived from asyncio's."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
