// SPDX-License-Identifier: MIT OR Apache-2.0
// Methods of fiberrt.socket.socket, a Python class derived from the standard library's: the most frequent calls, and
// the building blocks of the others. The class gets them as descriptors of C functions, so that no Python code runs
// between the caller and the core. The standard library's object owns the descriptor, its O_NONBLOCK and the timeout:
// this file only reads them.
#include "functions.h"
#include "io.h"
#include "socket_address.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fiberrt_python {

namespace {

// The beginning of _socket.socket's struct, which has no public header. socket_methods() checks that it fits.
struct Socket {
    PyObject_HEAD int fd; // -1: closed
    int family;
    int type;
    int protocol;
    PyObject* (*error_handler)();
    int64_t timeout_ns; // negative: None
};

PyTypeObject* stdlib_type; // _socket.socket

Socket* of(PyObject* self) { return reinterpret_cast<Socket*>(self); }

// How a call on a socket waits, according to the socket's timeout.
class Waits {
public:
    explicit Waits(PyObject* self) : timeout_ns_(of(self)->timeout_ns) {
        if (timeout_ns_ > 0) timeout.set(timeout_ns_);
    }
    bool never() const { return timeout_ns_ == 0; }
    // With a timeout, MSG_DONTWAIT has no effect in the standard library, because it waits before the call.
    int flags(int given) const {
        if (timeout_ns_ < 0) return given;
        return timeout_ns_ ? given & ~MSG_DONTWAIT : given | MSG_DONTWAIT;
    }
    Timeout timeout;

private:
    int64_t timeout_ns_;
};

PyObject* recv(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    int flags = 0;
    if (!takes("recv", count, 1, 2) || (count > 1 && !flags_of(args[1], &flags)) || !world()) return nullptr;
    Waits waits(self);
    flags = waits.flags(flags);
    return into_bytes(args[0], [&](char* memory, size_t room) {
        return perform("recv", waits.timeout, [&] { return fiber_recv(of(self)->fd, memory, room, flags); });
    });
}

// Parses arguments like (buffer, nbytes=0, flags=0). Returns false with an exception set.
bool buffer_arguments(PyObject* const* args, Py_ssize_t count, PyObject* names, PyObject* out[3]) {
    static const char* const known[] = {"buffer", "nbytes", "flags"};
    if (!takes("recv_into", count + (names ? PyTuple_GET_SIZE(names) : 0), 1, 3)) return false;
    for (Py_ssize_t i = 0; i < count; i++) out[i] = args[i];
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++) {
        PyObject* name = PyTuple_GET_ITEM(names, i);
        int place = 0;
        while (place < 3 && PyUnicode_CompareWithASCIIString(name, known[place]) != 0) place++;
        if (place == 3 || out[place]) {
            PyErr_Format(PyExc_TypeError, "recv_into() got an unexpected or a second argument '%U'", name);
            return false;
        }
        out[place] = args[count + i];
    }
    if (!out[0]) PyErr_SetString(PyExc_TypeError, "recv_into() takes a buffer");
    return out[0];
}

PyObject* recv_into(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* given[3] = {};
    int flags = 0;
    if (!buffer_arguments(args, count, names, given) || (given[2] && !flags_of(given[2], &flags)) || !world())
        return nullptr;
    Py_ssize_t wanted = given[1] ? PyNumber_AsSsize_t(given[1], PyExc_OverflowError) : 0;
    if (wanted == -1 && PyErr_Occurred()) return nullptr;
    Py_buffer buffer;
    if (PyObject_GetBuffer(given[0], &buffer, PyBUF_WRITABLE) < 0) return nullptr;
    int64_t result = -1;
    if (wanted < 0 || wanted > buffer.len) {
        PyErr_SetString(PyExc_ValueError, wanted < 0 ? "a number of bytes must not be negative" : "buffer too small");
    } else {
        size_t room = size_t(wanted ? wanted : buffer.len);
        Waits waits(self);
        flags = waits.flags(flags);
        if (room == 0)
            result = 0; // as in the standard library
        else
            result = perform("recv", waits.timeout, [&] { return fiber_recv(of(self)->fd, buffer.buf, room, flags); });
    }
    PyBuffer_Release(&buffer);
    return result < 0 ? nullptr : PyLong_FromLongLong(result);
}

PyObject* send(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    int flags = 0;
    if (!takes("send", count, 1, 2) || (count > 1 && !flags_of(args[1], &flags)) || !world()) return nullptr;
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    Waits waits(self);
    flags = waits.flags(flags);
    int64_t result =
        perform("send", waits.timeout, [&] { return fiber_send(of(self)->fd, buffer.buf, size_t(buffer.len), flags); });
    PyBuffer_Release(&buffer);
    return result < 0 ? nullptr : PyLong_FromLongLong(result);
}

PyObject* sendall(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    int flags = 0;
    if (!takes("sendall", count, 1, 2) || (count > 1 && !flags_of(args[1], &flags)) || !world()) return nullptr;
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    Waits waits(self);
    flags = waits.flags(flags);
    size_t sent = 0;
    int64_t result = perform("send", waits.timeout, [&]() -> int64_t {
        while (sent < size_t(buffer.len)) {
            int64_t some =
                fiber_send(of(self)->fd, static_cast<char*>(buffer.buf) + sent, size_t(buffer.len) - sent, flags);
            if (some < 0) return some;
            sent += size_t(some);
        }
        return 0;
    });
    PyBuffer_Release(&buffer);
    if (result < 0) return nullptr;
    Py_RETURN_NONE;
}

// A socket object of the standard library, for one call of its methods: it has the socket's descriptor and never waits.
class Shadow {
public:
    explicit Shadow(PyObject* self) {
        PyObject* nothing = PyTuple_New(0);
        if (!nothing) return;
        object_ = stdlib_type->tp_new(stdlib_type, nothing, nullptr);
        Py_DECREF(nothing);
        if (!object_) return;
        constexpr size_t head = offsetof(Socket, fd);
        memcpy(reinterpret_cast<char*>(object_) + head, reinterpret_cast<char*>(self) + head,
               size_t(stdlib_type->tp_basicsize) - head);
        of(object_)->timeout_ns = 0;
    }
    ~Shadow() {
        if (!object_) return;
        of(object_)->fd = -1; // this object must not close it
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_DECREF(object_);
        PyErr_Restore(type, value, traceback);
    }
    Shadow(const Shadow&) = delete;
    Shadow& operator=(const Shadow&) = delete;
    PyObject* object() const { return object_; }

private:
    PyObject* object_ = nullptr;
};

// For calls that do not have to wait: returns false with an exception set if the caller has been cancelled.
bool not_cancelled() {
    if (!poll_turn()) return false;
    static fiber_wg_t nobody;
    for (;;) {
        int64_t result = fiber_wg_wait(&nobody);
        switch (settle(result)) {
        case Settled::done: return true;
        case Settled::timed_out:
        case Settled::again: continue;
        case Settled::raised: return false;
        case Settled::failed: raise_errno(result); return false;
        }
    }
}

// Waits for a condition without a kernel event: sleeps, a little longer each time.
class Patience {
public:
    bool wait(const char* what, const Timeout& timeout) {
        int64_t left = timeout.left_ns();
        if (left == 0) {
            PyErr_SetString(PyExc_TimeoutError, "timed out");
            return false;
        }
        int64_t now = next_ns_ < left ? next_ns_ : left;
        if (next_ns_ < FIBER_MSEC(16)) next_ns_ *= 2;
        return perform(what, Timeout(), [&] { return fiber_sleep(now); }) >= 0;
    }

private:
    int64_t next_ns_ = FIBER_MSEC(1);
};

// _attempt(events, method, *args): calls a method of the standard library, again and again while it would block, and
// waits for the events in between. events 0: does not wait.
PyObject* attempt(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    constexpr Py_ssize_t most = 8;
    int events;
    if (!takes("_attempt", count, 2, most) || !flags_of(args[0], &events) || !world() || !not_cancelled())
        return nullptr;
    Waits waits(self);
    Patience patience;
    for (bool was_ready = false;; was_ready = true) {
        int fd = of(self)->fd;
        {
            Shadow shadow(self);
            if (!shadow.object()) return nullptr;
            PyObject* all[most];
            all[0] = shadow.object();
            for (Py_ssize_t i = 2; i < count; i++) all[i - 1] = args[i];
            PyObject* result = PyObject_Vectorcall(args[1], all, size_t(count - 1), nullptr);
            if (result || !events || waits.never() || !PyErr_ExceptionMatches(PyExc_BlockingIOError)) return result;
        }
        PyErr_Clear();
        // The descriptor was ready and still would block: another caller was first, or the receiver of a datagram has
        // no room, for which there is no event.
        if (was_ready && !patience.wait("socket", waits.timeout)) return nullptr;
        if (perform("socket", waits.timeout, [&] { return fiber_poll_fd(fd, events); }) < 0) return nullptr;
        if (of(self)->fd != fd) return raise_errno(-EBADF);
    }
}

// Begins a connect. Returns the errno, a new reference.
PyObject* begin_connect(PyObject* self, PyObject* address) {
    static PyObject* name = PyUnicode_InternFromString("connect_ex");
    Shadow shadow(self);
    if (!name || !shadow.object()) return nullptr;
    int fd = of(self)->fd;
    int flags = fcntl(fd, F_GETFL);
    bool blocks = flags >= 0 && !(flags & O_NONBLOCK);
    if (blocks) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    PyObject* args[] = {shadow.object(), address};
    PyObject* result = PyObject_VectorcallMethod(name, args, 2, nullptr);
    if (blocks) fcntl(fd, F_SETFL, flags);
    return result;
}

PyObject* connect(PyObject* self, PyObject* address) {
    if (!world() || !not_cancelled()) return nullptr;
    Waits waits(self);
    Patience patience;
    for (;;) {
        int fd = of(self)->fd;
        PyObject* result = begin_connect(self, address);
        if (!result) return nullptr;
        long error = PyLong_AsLong(result);
        // A Unix listener without room causes EAGAIN, and there is no event for room.
        if (error == EAGAIN && of(self)->timeout_ns < 0) {
            Py_DECREF(result);
            if (!patience.wait("connect", waits.timeout)) return nullptr;
            continue;
        }
        if (error != EINPROGRESS || waits.never()) return result;
        Py_DECREF(result);
        int64_t events = perform("connect", waits.timeout, [&] { return fiber_poll_fd(fd, POLLOUT); });
        if (events < 0) return nullptr;
        int now = EBADF;
        socklen_t size = sizeof now;
        if (of(self)->fd == fd && getsockopt(fd, SOL_SOCKET, SO_ERROR, &now, &size) < 0) now = errno;
        return PyLong_FromLong(now);
    }
}

// Returns an address in the standard library's form. For rare families it calls a method of self.
PyObject* address_of(PyObject* self, int fd, const SocketAddress& address, socklen_t length) {
    if (length == 0 || socket_address_known(address.any.sa_family)) return socket_address(address, length);
    Shadow shadow(self);
    if (!shadow.object()) return nullptr;
    of(shadow.object())->fd = fd;
    PyObject* result = PyObject_CallMethod(shadow.object(), "getpeername", nullptr);
    if (result || !PyErr_ExceptionMatches(PyExc_OSError)) return result;
    PyErr_Clear(); // the peer has left already
    Py_RETURN_NONE;
}

PyObject* accept(PyObject* self, PyObject*) {
    if (!world()) return nullptr;
    Waits waits(self);
    if (waits.never() && !poll_turn()) return nullptr;
    SocketAddress address;
    socklen_t length;
    int64_t fd = perform("accept", waits.timeout, [&]() -> int64_t {
        memset(&address, 0, sizeof address);
        length = sizeof address;
        if (!waits.never()) return fiber_accept4(of(self)->fd, &address.any, &length, SOCK_CLOEXEC);
        int got = accept4(of(self)->fd, &address.any, &length, SOCK_CLOEXEC);
        if (got < 0 && errno == EINTR) return -EAGAIN;
        return got < 0 ? -errno : got;
    });
    if (fd < 0) return nullptr;
    PyObject* from = address_of(self, int(fd), address, length);
    PyObject* result = from ? Py_BuildValue("iN", int(fd), from) : nullptr;
    if (!result) ::close(int(fd));
    return result;
}

// Closes the socket. Waits of other fibers on it first end with EBADF.
PyObject* real_close(PyObject* self, PyObject* const*, Py_ssize_t) {
    int fd = of(self)->fd;
    if (fd < 0) Py_RETURN_NONE;
    int error = -EPERM;
    if (world()) {
        of(self)->fd = -1;
        WaitsFor reason("close");
        error = fiber_close(fd);
    } else if (this_world) {
        return nullptr; // a greenlet
    } else {
        PyErr_Clear(); // the thread ends
        of(self)->fd = -1;
    }
    if (error == -EPERM) error = ::close(fd) < 0 ? -errno : 0; // the caller must not wait here
    if (error < 0 && error != -ECONNRESET) return raise_errno(error);
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"recv", as_method(recv), METH_FASTCALL,
     "recv($self, bufsize, flags=0, /)\n--\n\nWait for data, and return up to bufsize bytes; b'' at the end.\n"
     "TimeoutError: no data came within the socket's timeout. BlockingIOError: there is no data, and the timeout is "
     "0."},
    {"recv_into", as_method(recv_into), METH_FASTCALL | METH_KEYWORDS,
     "recv_into($self, buffer, nbytes=0, flags=0)\n--\n\nWait for data, and put up to nbytes bytes into the buffer; 0: "
     "up to its size. Return the number of bytes, 0 at the end.\nRaises the same exceptions as recv()."},
    {"send", as_method(send), METH_FASTCALL,
     "send($self, data, flags=0, /)\n--\n\nWait until some of the data has been sent, and return the number of bytes.\n"
     "TimeoutError: nothing could be sent within the socket's timeout. BlockingIOError: there is no room, and the "
     "timeout is 0."},
    {"sendall", as_method(sendall), METH_FASTCALL,
     "sendall($self, data, flags=0, /)\n--\n\nWait until all of the data has been sent. The socket's timeout applies "
     "to "
     "the whole.\nAfter a TimeoutError it is unknown how much has been sent."},
    {"_accept", accept, METH_NOARGS,
     "_accept($self, /)\n--\n\nWait for the next connection; return its descriptor and address."},
    {"_connect", connect, METH_O,
     "_connect($self, address, /)\n--\n\nConnect to a numeric address; return the errno. TimeoutError: not in time."},
    {"_attempt", as_method(attempt), METH_FASTCALL,
     "_attempt($self, events, method, /, *args)\n--\n\nCall a method of _socket.socket; while it would block, wait for "
     "the events and call it again."},
    {"_real_close", as_method(real_close), METH_FASTCALL, "_real_close($self, /)\n--\n\n"},
    {nullptr, nullptr, 0, nullptr},
};

// Whether the struct of _socket.socket begins as struct Socket. Returns -1 with an exception set.
int fits(PyObject* type) {
    PyObject* probe = PyObject_CallFunction(type, "iii", AF_UNIX, SOCK_DGRAM, 0);
    if (!probe) return -1;
    PyObject* done = PyObject_CallMethod(probe, "settimeout", "d", 1.5);
    PyObject* number = PyObject_CallMethod(probe, "fileno", nullptr);
    int result = -1;
    if (done && number) {
        auto* base = reinterpret_cast<PyTypeObject*>(type);
        const Socket* socket = of(probe);
        if (base->tp_basicsize >= Py_ssize_t(sizeof(Socket)) && !base->tp_dictoffset && !base->tp_weaklistoffset &&
            socket->fd == PyLong_AsLong(number) && socket->family == AF_UNIX && socket->type == SOCK_DGRAM &&
            socket->protocol == 0 && socket->timeout_ns == 1500000000)
            result = 0;
        else
            PyErr_SetString(PyExc_ImportError, "fiberrt does not know how this interpreter keeps its sockets");
    }
    Py_XDECREF(done);
    Py_XDECREF(number);
    if (result == 0) {
        PyObject* closed = PyObject_CallMethod(probe, "close", nullptr); // else the interpreter may warn of it
        if (!closed) result = -1;
        Py_XDECREF(closed);
    }
    Py_DECREF(probe);
    return result;
}

PyObject* socket_methods(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!takes("socket_methods", count, 2, 2)) return nullptr;
    if (!PyType_Check(args[0]) || !PyType_Check(args[1]) ||
        !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(args[0]), reinterpret_cast<PyTypeObject*>(args[1])))
        return PyErr_Format(PyExc_TypeError, "socket_methods() takes a class and _socket.socket, its base");
    if (!stdlib_type) {
        if (fits(args[1]) < 0) return nullptr;
        stdlib_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[1]));
    }
    for (PyMethodDef* method = methods; method->ml_name; method++) {
        PyObject* descriptor = PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(args[0]), method);
        if (!descriptor || PyObject_SetAttrString(args[0], method->ml_name, descriptor) < 0) {
            Py_XDECREF(descriptor);
            return nullptr;
        }
        Py_DECREF(descriptor);
    }
    Py_RETURN_NONE;
}

} // namespace

PyMethodDef socket_functions[] = {
    {"socket_methods", as_method(socket_methods), METH_FASTCALL,
     "socket_methods(cls, base, /)\n--\n\nAdd the waiting methods to a class derived from base, which must be "
     "_socket.socket."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
