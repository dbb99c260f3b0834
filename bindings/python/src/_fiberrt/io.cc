// SPDX-License-Identifier: MIT OR Apache-2.0
// Input and output on descriptors. Each takes a timeout in seconds as its last argument, None for ever, and raises
// TimeoutError when that has passed.
#include "io.h"

#include "functions.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

namespace fiberrt_python {

bool flags_of(PyObject* object, int* out) {
    long value = PyLong_AsLong(object);
    if (value == -1 && PyErr_Occurred()) return false;
    *out = int(value);
    if (*out == value) return true;
    PyErr_SetString(PyExc_OverflowError, "too large for a C int");
    return false;
}

namespace {

bool descriptor(PyObject* object, int* out) {
    *out = PyObject_AsFileDescriptor(object);
    return *out >= 0;
}

// The same with a timeout that is an argument.
template <typename Operation>
int64_t perform(const char* what, PyObject* seconds, Operation operation) {
    if (!world()) return -1;
    Timeout timeout;
    if (!timeout.parse(seconds)) return -1;
    return perform(what, timeout, operation);
}

PyObject* argument(PyObject* const* args, Py_ssize_t count, Py_ssize_t index) {
    return index < count ? args[index] : nullptr;
}

template <typename Operation>
PyObject* perform_into_bytes(const char* what, PyObject* size, PyObject* seconds, Operation operation) {
    return into_bytes(size, [&](char* memory, size_t room) {
        return perform(what, seconds, [&] { return operation(memory, room); });
    });
}

PyObject* recv(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int fd, flags = 0;
    if (!takes("recv", count, 2, 4) || !descriptor(args[0], &fd) || (count > 2 && !flags_of(args[2], &flags)))
        return nullptr;
    return perform_into_bytes("recv", args[1], argument(args, count, 3),
                              [&](char* memory, size_t room) { return fiber_recv(fd, memory, room, flags); });
}

PyObject* read(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int fd;
    if (!takes("read", count, 2, 3) || !descriptor(args[0], &fd)) return nullptr;
    return perform_into_bytes("read", args[1], argument(args, count, 2),
                              [&](char* memory, size_t room) { return fiber_read(fd, memory, room); });
}

PyObject* recv_into(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int fd, flags = 0;
    if (!takes("recv_into", count, 2, 5) || !descriptor(args[0], &fd) || (count > 3 && !flags_of(args[3], &flags)))
        return nullptr;
    Py_ssize_t wanted = count > 2 ? PyNumber_AsSsize_t(args[2], PyExc_OverflowError) : 0;
    if (wanted == -1 && PyErr_Occurred()) return nullptr;
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[1], &buffer, PyBUF_WRITABLE) < 0) return nullptr;
    int64_t result = -1;
    if (wanted < 0 || wanted > buffer.len)
        PyErr_SetString(PyExc_ValueError, wanted < 0 ? "a number of bytes must not be negative" : "buffer too small");
    else
        result = perform("recv", argument(args, count, 4),
                         [&] { return fiber_recv(fd, buffer.buf, size_t(wanted ? wanted : buffer.len), flags); });
    PyBuffer_Release(&buffer);
    return result < 0 ? nullptr : PyLong_FromLongLong(result);
}

PyObject* send(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int fd, flags = 0;
    if (!takes("send", count, 2, 4) || !descriptor(args[0], &fd) || (count > 2 && !flags_of(args[2], &flags)))
        return nullptr;
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[1], &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    int64_t result = perform("send", argument(args, count, 3),
                             [&] { return fiber_send(fd, buffer.buf, size_t(buffer.len), flags); });
    PyBuffer_Release(&buffer);
    return result < 0 ? nullptr : PyLong_FromLongLong(result);
}

PyObject* write(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int fd;
    if (!takes("write", count, 2, 3) || !descriptor(args[0], &fd)) return nullptr;
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[1], &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    int64_t result =
        perform("write", argument(args, count, 2), [&] { return fiber_write(fd, buffer.buf, size_t(buffer.len)); });
    PyBuffer_Release(&buffer);
    return result < 0 ? nullptr : PyLong_FromLongLong(result);
}

// All of it, by as many sends as it takes; the timeout is for the whole.
PyObject* sendall(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int fd, flags = 0;
    if (!takes("sendall", count, 2, 4) || !descriptor(args[0], &fd) || (count > 2 && !flags_of(args[2], &flags)))
        return nullptr;
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[1], &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    size_t sent = 0;
    int64_t result = perform("send", argument(args, count, 3), [&]() -> int64_t {
        while (sent < size_t(buffer.len)) {
            int64_t some = fiber_send(fd, static_cast<char*>(buffer.buf) + sent, size_t(buffer.len) - sent, flags);
            if (some < 0) return some;
            sent += size_t(some);
        }
        return 0;
    });
    PyBuffer_Release(&buffer);
    if (result < 0) return nullptr;
    Py_RETURN_NONE;
}

PyObject* accept(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int fd;
    if (!takes("accept", count, 1, 2) || !descriptor(args[0], &fd)) return nullptr;
    sockaddr_storage address;
    socklen_t length;
    int64_t accepted = perform("accept", argument(args, count, 1), [&] {
        length = sizeof address;
        return fiber_accept4(fd, reinterpret_cast<sockaddr*>(&address), &length, SOCK_CLOEXEC);
    });
    return accepted < 0 ? nullptr : PyLong_FromLongLong(accepted);
}

PyObject* connect(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int fd;
    if (!takes("connect", count, 2, 3) || !descriptor(args[0], &fd)) return nullptr;
    Py_buffer address;
    if (PyObject_GetBuffer(args[1], &address, PyBUF_SIMPLE) < 0) return nullptr;
    int64_t result = perform("connect", argument(args, count, 2), [&] {
        return fiber_connect(fd, static_cast<sockaddr*>(address.buf), socklen_t(address.len));
    });
    PyBuffer_Release(&address);
    if (result < 0) return nullptr;
    Py_RETURN_NONE;
}

PyObject* close(PyObject*, PyObject* number) {
    int fd;
    if (!descriptor(number, &fd)) return nullptr;
    if (!this_world) {
        if (!world()) return nullptr;
    }
    WaitsFor reason("close");
    int error = fiber_close(fd);
    if (error < 0) return raise_errno(error);
    Py_RETURN_NONE;
}

PyObject* wait_fd(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int fd, events;
    if (!takes("wait_fd", count, 2, 3) || !descriptor(args[0], &fd) || !flags_of(args[1], &events)) return nullptr;
    if (!world()) return nullptr;
    Timeout timeout;
    if (!timeout.parse(argument(args, count, 2))) return nullptr;
    WaitsFor reason("wait_fd");
    for (;;) {
        int64_t result;
        {
            TimeoutScope scope(timeout);
            result = scope.error() ? scope.error() : fiber_poll_fd(fd, events);
        }
        switch (settle_io(result, &timeout)) {
        case Settled::done: return PyLong_FromLongLong(result);
        case Settled::timed_out: return PyLong_FromLong(0);
        case Settled::again: continue;
        case Settled::raised: return nullptr;
        case Settled::failed: return raise_errno(result);
        }
    }
}

} // namespace

PyMethodDef io_functions[] = {
    {"recv", as_method(recv), METH_FASTCALL,
     "recv(fd, size, flags=0, timeout=None, /)\n--\n\nUp to size bytes "
     "of a socket."},
    {"recv_into", as_method(recv_into), METH_FASTCALL,
     "recv_into(fd, buffer, size=0, flags=0, timeout=None, /)\n--\n\nReceive up to size bytes, 0: as many as "
     "have room."},
    {"send", as_method(send), METH_FASTCALL,
     "send(fd, data, flags=0, timeout=None, /)\n--\n\nSend some of the data; return how many bytes."},
    {"sendall", as_method(sendall), METH_FASTCALL,
     "sendall(fd, data, flags=0, timeout=None, /)\n--\n\nSend all "
     "of the data."},
    {"accept", as_method(accept), METH_FASTCALL,
     "accept(fd, timeout=None, /)\n--\n\nThe descriptor of the next connection, with O_CLOEXEC."},
    {"connect", as_method(connect), METH_FASTCALL,
     "connect(fd, address, timeout=None, /)\n--\n\nConnect a socket to the address in a struct sockaddr, as bytes."},
    {"read", as_method(read), METH_FASTCALL,
     "read(fd, size, timeout=None, /)\n--\n\nUp to size bytes of any "
     "descriptor."},
    {"write", as_method(write), METH_FASTCALL,
     "write(fd, data, timeout=None, /)\n--\n\nWrite some of the data; return how many bytes."},
    {"close", close, METH_O,
     "close(fd, /)\n--\n\nClose a descriptor; operations on it by other fibers end with EBADF first."},
    {"wait_fd", as_method(wait_fd), METH_FASTCALL,
     "wait_fd(fd, events, timeout=None, /)\n--\n\nWait until a descriptor is ready for one of events (POLLIN, …), and "
     "return those that hold; 0: the timeout came first."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
