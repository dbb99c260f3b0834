// SPDX-License-Identifier: MIT OR Apache-2.0
// Received data and writes of fiberrt.aio's transports for stream sockets and pipes.
#include "functions.h"
#include "plain_method.h"
#include "streams.h"
#include "transport.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fiberrt_python {

namespace {

// ---- Receiving ------------------------------------------------------------------------------------------------------
//
// The watch of a quiet connection receives into a small buffer, in one operation. After a receive that fills it, the
// watch polls, and data goes through the loop's large buffer, until a receive returns less than the small buffer holds.

constexpr size_t small_bytes = 2048;

const char* read_failed(const TransportObject* stream) {
    return stream->is_pipe ? "Fatal read error on pipe transport" : "Fatal read error on socket transport";
}

bool on_end(TransportObject* stream) {
    static const Name on_eof("_on_eof");
    PyObject* result = call(object(stream), on_eof);
    Py_XDECREF(result);
    return result;
}

bool give_bytes(TransportObject* stream, const char* data, size_t size) {
    PyObject* bytes = PyBytes_FromStringAndSize(data, Py_ssize_t(size));
    PyObject* result = bytes ? protocol_data_received(stream->protocol, bytes) : nullptr;
    Py_XDECREF(bytes);
    if (!result) return !stream->is_pipe && fail(stream, "Fatal error: protocol.data_received() call failed.");
    Py_DECREF(result);
    return true;
}

// Copies the data into buffers of a BufferedProtocol. If it pauses reading in between, the rest waits; it may also set
// another protocol.
bool give_to_buffers(TransportObject* stream, const char* data, size_t size) {
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
        if (size && stream->paused) return pending_append(stream->unread, data, size);
        if (size && !stream->buffered) return give_bytes(stream, data, size);
    }
    return true;
}

bool give(TransportObject* stream, const char* data, size_t size) {
    return stream->buffered ? give_to_buffers(stream, data, size) : give_bytes(stream, data, size);
}

// Gives what is left from before a pause.
bool give_unread(TransportObject* stream) {
    Pending unread = stream->unread;
    stream->unread = {};
    bool fine = give(stream, unread.memory + unread.begin, unread.size());
    pending_drop(unread);
    return fine;
}

bool receive_much(TransportObject* stream) {
    LoopObject* loop = stream->loop;
    if (!loop->scratch) loop->scratch = static_cast<char*>(PyMem_Malloc(scratch_bytes));
    if (!loop->scratch) {
        PyErr_NoMemory();
        return fail(stream, read_failed(stream));
    }
    ssize_t got = stream->is_socket ? recv(stream->fd, loop->scratch, scratch_bytes, 0)
                                    : ::read(stream->fd, loop->scratch, scratch_bytes);
    if (got < 0) return errno == EAGAIN || errno == EINTR || fail_by_errno(stream, read_failed(stream));
    if (got == 0) return on_end(stream);
    if (size_t(got) < small_bytes && stream->is_socket) watch_set_buffer(stream->reads, small_bytes);
    return give(stream, loop->scratch, size_t(got));
}

bool take_received(TransportObject* stream) {
    int64_t got = stream->reads->result;
    if (got == 0) return on_end(stream);
    if (got < 0) {
        errno = int(-got);
        return fail_by_errno(stream, read_failed(stream));
    }
    char received[small_bytes]; // the protocol's callbacks may wait, or free the buffer
    memcpy(received, stream->reads->buffer, size_t(got));
    if (size_t(got) == small_bytes) watch_set_buffer(stream->reads, 0);
    return give(stream, received, size_t(got));
}

int ready_to_read(Watch& watch) {
    auto* stream = transport_of(watch.owner);
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

int ready_to_write(Watch& watch);

const char* write_failed(const TransportObject* stream) {
    return stream->is_pipe ? "Fatal write error on pipe transport" : "Fatal write error on socket transport";
}

ssize_t send_some(const TransportObject* stream, const char* data, size_t size) {
    return stream->is_socket ? send(stream->fd, data, size, MSG_NOSIGNAL) : ::write(stream->fd, data, size);
}

bool send_pending(TransportObject* stream) {
    static const Name written("_all_written");
    Pending& pending = stream->pending;
    if (stream->connection_lost || !pending.size()) {
        watch_not_want(stream->writes);
        return true;
    }
    ssize_t sent = send_some(stream, pending.memory + pending.begin, pending.size());
    if (sent < 0) {
        if (errno == EAGAIN || errno == EINTR) return true;
        int error = errno;
        watch_not_want(stream->writes);
        pending_drop(pending);
        errno = error;
        return fail_by_errno(stream, write_failed(stream));
    }
    pending.begin += size_t(sent);
    if (!pending.size()) pending_drop(pending);
    if (!may_resume_protocol(stream)) return false; // it may write more
    if (pending.size() || !stream->writes) return true;
    watch_not_want(stream->writes);
    PyObject* result = call(object(stream), written);
    Py_XDECREF(result);
    return result;
}

int ready_to_write(Watch& watch) { return for_protocol(transport_of(watch.owner), send_pending); }

// Sends what the socket takes, and keeps the rest. Returns false with an exception set.
bool send_now(TransportObject* stream, const char* data, size_t size) {
    if (!stream->pending.size()) {
        ssize_t sent = send_some(stream, data, size);
        if (sent == ssize_t(size)) return true;
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR) return fail_by_errno(stream, write_failed(stream));
            sent = 0;
        }
        data += sent;
        size -= size_t(sent);
    }
    return pending_append(stream->pending, data, size) && want_to_write(stream, ready_to_write) &&
           may_pause_protocol(stream);
}

// Whether the transport accepts data. Sets an exception if it never does.
bool takes_data(TransportObject* stream, const char* call_name) {
    if (stream->eof) {
        PyErr_Format(PyExc_RuntimeError, "Cannot call %s() after write_eof()", call_name);
        return false;
    }
    if (!stream->empty_waiter || stream->empty_waiter == Py_None) return true;
    PyErr_Format(PyExc_RuntimeError, "unable to %s; sendfile is in progress", call_name);
    return false;
}

PyObject* write(PyObject* self, PyObject* data) {
    TransportObject* stream = transport_of(self);
    if (!PyBytes_Check(data) && !PyByteArray_Check(data) && !PyMemoryView_Check(data))
        return PyErr_Format(PyExc_TypeError, "data argument must be a bytes-like object, not '%.200s'",
                            Py_TYPE(data)->tp_name);
    if (!takes_data(stream, "write")) return nullptr;
    Py_buffer buffer;
    if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    bool fine = true;
    if (buffer.len == 0) {
        // as in asyncio: no data is no write
    } else if (stream->connection_lost || !stream->loop || (stream->is_pipe && stream->closing)) {
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

const PlainMethod& plain_write() {
    static const PlainMethod method("write", write);
    return method;
}

PyObject* writelines(PyObject* self, PyObject* list) {
    if (!takes_data(transport_of(self), "writelines")) return nullptr;
    PyObject* none = PyBytes_FromStringAndSize(nullptr, 0);
    PyObject* all = none ? PyObject_CallMethod(none, "join", "O", list) : nullptr;
    Py_XDECREF(none);
    PyObject* result = all ? write(self, all) : nullptr;
    Py_XDECREF(all);
    return result;
}

// Begins to receive, unless reading is paused or the transport is being closed.
PyObject* start_reading(PyObject* self, PyObject*) {
    TransportObject* stream = transport_of(self);
    if (stream->closing || stream->paused || !stream->loop) Py_RETURN_NONE;
    if (!stream->reads) {
        if (!watch_new(&stream->reads, stream->loop, stream->fd, POLLIN, ready_to_read, self)) return nullptr;
        if (stream->is_socket) watch_set_buffer(stream->reads, small_bytes);
    }
    if (stream->held || stream->unread.size())
        watch_report_again(stream->reads);
    else
        watch_want(stream->reads);
    loop_wake(stream->loop);
    Py_RETURN_NONE;
}

// A poll under way is kept, because reading may be resumed soon.
PyObject* pause(PyObject* self, PyObject*) {
    TransportObject* stream = transport_of(self);
    stream->paused = true;
    if (stream->reads) watch_not_want(stream->reads);
    Py_RETURN_NONE;
}

PyObject* resume(PyObject* self, PyObject*) {
    transport_of(self)->paused = false;
    return start_reading(self, nullptr);
}

PyObject* is_reading(PyObject* self, PyObject*) {
    return PyBool_FromLong(!transport_of(self)->closing && !transport_of(self)->paused);
}

// ---- The end of a pipe that writes ----------------------------------------------------------------------------------

int reader_has_closed(Watch& watch) {
    static const Name gone("_reader_has_closed");
    watch_not_want(&watch);
    return for_protocol(transport_of(watch.owner), [](TransportObject* pipe) {
        PyObject* result = call(object(pipe), gone);
        Py_XDECREF(result);
        return result != nullptr;
    });
}

// The kernel reports the reader's close as an event for reading.
PyObject* watch_reader(PyObject* self, PyObject*) {
    TransportObject* pipe = transport_of(self);
    if (pipe->closing || pipe->reads || !pipe->loop) Py_RETURN_NONE;
    if (!watch_new(&pipe->reads, pipe->loop, pipe->fd, POLLIN, reader_has_closed, self)) return nullptr;
    watch_want(pipe->reads);
    loop_wake(pipe->loop);
    Py_RETURN_NONE;
}

} // namespace

PyObject* transport_write(PyObject* transport, PyObject* data) {
    const PlainMethod& method = plain_write();
    Py_INCREF(transport); // the protocol may drop the last other reference when it is told to pause
    bool direct = method.is_of(Py_TYPE(transport)) && !transport_of(transport)->own_write;
    PyObject* result = direct ? write(transport, data) : PyObject_CallMethodOneArg(transport, method.name, data);
    Py_DECREF(transport);
    return result;
}

int set_attribute_of_writer(PyObject* self, PyObject* name, PyObject* value) {
    return plain_write().set_attribute(self, name, value, transport_of(self)->own_write);
}

PyMethodDef reading_methods[] = {
    {"is_reading", is_reading, METH_NOARGS, "is_reading($self, /)\n--\n\nWhether the protocol may receive data."},
    {"_start_reading", start_reading, METH_NOARGS, nullptr},
    {"_pause", pause, METH_NOARGS, nullptr},
    {"_resume", resume, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef writing_methods[] = {
    {"write", write, METH_O, "write($self, data, /)\n--\n\nSend the data, or keep it until there is room to send it."},
    {"writelines", writelines, METH_O, "writelines($self, list_of_data, /)\n--\n\nwrite() for several pieces."},
    {"_watch_reader", watch_reader, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
