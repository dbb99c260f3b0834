// SPDX-License-Identifier: MIT OR Apache-2.0
// Input and output on descriptors. Each function takes a timeout in seconds as its last argument, None for ever, and
// raises TimeoutError when the timeout has passed.
#include "io.h"

#include "functions.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

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

// perform() with a timeout that is a Python argument.
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

// Sends all data, by as many sends as needed. The timeout applies to the whole.
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

PyObject* open(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int flags, mode, folder = AT_FDCWD;
    PyObject* path;
    if (!takes("open", count, 4, 4) || !flags_of(args[1], &flags) || !flags_of(args[2], &mode) ||
        (args[3] != Py_None && !flags_of(args[3], &folder)) || !PyUnicode_FSConverter(args[0], &path))
        return nullptr;
    const char* name = PyBytes_AS_STRING(path);
    flags |= O_CLOEXEC;
    open_how how = {};
    how.flags = unsigned(flags);
    how.mode = flags & O_CREAT ? unsigned(mode) & 07777 : 0;
    int64_t opened = perform("open", nullptr, [&] {
        return folder == AT_FDCWD ? fiber_open(name, flags, mode_t(mode))
                                  : fiber_openat2(folder, name, &how, sizeof how);
    });
    Py_DECREF(path);
    return opened < 0 ? nullptr : PyLong_FromLongLong(opened);
}

// Converts the offset of a transfer, in bytes; for None, *out is null: the file's own position. Returns false with an
// exception set.
bool offset_of(PyObject* object, int64_t* number, int64_t** out) {
    *out = nullptr;
    if (object == Py_None) return true;
    *out = number;
    *number = PyLong_AsLongLong(object);
    return *number != -1 || !PyErr_Occurred();
}

PyObject* splice(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int from, to, flags;
    int64_t numbers[2];
    int64_t *from_at, *to_at;
    if (!takes("splice", count, 6, 6) || !flags_of(args[0], &from) || !flags_of(args[1], &to) ||
        !offset_of(args[3], &numbers[0], &from_at) || !offset_of(args[4], &numbers[1], &to_at) ||
        !flags_of(args[5], &flags))
        return nullptr;
    Py_ssize_t most = PyNumber_AsSsize_t(args[2], PyExc_OverflowError);
    if (most == -1 && PyErr_Occurred()) return nullptr;
    int64_t moved = perform("splice", nullptr,
                            [&] { return fiber_splice(from, from_at, to, to_at, size_t(most), unsigned(flags)); });
    return moved < 0 ? nullptr : PyLong_FromLongLong(moved);
}

PyObject* descriptor_of(PyObject*, PyObject* file) {
    int fd;
    return descriptor(file, &fd) ? PyLong_FromLong(fd) : nullptr;
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

// How a call of the os module on a descriptor would wait.
enum class Waiting { never, blocks, nonblocking };

// Calls on pipes, sockets, terminals and descriptors without a file (an eventfd) may wait; calls on others, and on numbers
// that are no descriptors, never do.
Waiting waiting_of(int fd) {
    struct stat status;
    if (fstat(fd, &status) < 0) return Waiting::never;
    mode_t kind = status.st_mode & S_IFMT;
    if (kind == S_IFCHR ? !isatty(fd) : kind != S_IFIFO && kind != S_IFSOCK && kind != 0) return Waiting::never;
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? Waiting::never : flags & O_NONBLOCK ? Waiting::nonblocking : Waiting::blocks;
}

// Whether the caller may wait as a fiber: its thread has fibers, and it does not run in a greenlet, nor in a signal handler
// or finalizer that runs during a switch.
bool may_wait() {
    if (!this_world || !in_own_frames(this_world)) return false;
    static fiber_wg_t nothing; // waiting for it takes no time
    int result = fiber_wg_wait(&nothing);
    if (result == -EINTR) fiber_interrupt(this_world->current->handle, nullptr); // kept for the call itself
    return result != -EPERM;
}

PyObject* may_wait_here(PyObject*, PyObject*) { return PyBool_FromLong(may_wait()); }

PyObject* would_wait(PyObject*, PyObject* number) {
    int fd;
    if (!PyLong_CheckExact(number) || (fd = int(PyLong_AsLong(number))) < 0) {
        PyErr_Clear(); // the system's function will refuse the argument
        Py_RETURN_FALSE;
    }
    switch (waiting_of(fd)) {
    case Waiting::blocks: return PyBool_FromLong(may_wait());
    case Waiting::nonblocking:
        if (!poll_turn()) return nullptr;
        Py_RETURN_FALSE;
    case Waiting::never: break;
    }
    Py_RETURN_FALSE;
}

// The buffers of a sequence, for one call.
class Buffers {
public:
    ~Buffers() {
        for (size_t i = 0; i < held_; i++) PyBuffer_Release(&views_[i]);
        PyMem_Free(views_);
        PyMem_Free(parts_);
    }
    Buffers() = default;
    Buffers(const Buffers&) = delete;
    Buffers& operator=(const Buffers&) = delete;
    // Returns false with an exception set.
    bool take(PyObject* sequence, int flags) {
        Py_ssize_t count = PySequence_Size(sequence);
        if (count < 0) return false;
        views_ = PyMem_New(Py_buffer, size_t(count));
        parts_ = PyMem_New(iovec, size_t(count));
        if (!views_ || !parts_) return PyErr_NoMemory();
        for (; held_ < size_t(count); held_++) {
            PyObject* item = PySequence_GetItem(sequence, Py_ssize_t(held_));
            int error = item ? PyObject_GetBuffer(item, &views_[held_], flags) : -1;
            Py_XDECREF(item);
            if (error < 0) return false;
            parts_[held_] = {views_[held_].buf, size_t(views_[held_].len)};
        }
        return true;
    }
    iovec* parts() const { return parts_; }
    int count() const { return int(held_ < 1025 ? held_ : 1025); } // the system refuses more than 1024

private:
    Py_buffer* views_ = nullptr;
    iovec* parts_ = nullptr;
    size_t held_ = 0;
};

// Whether a call of the os module waits as a fiber: its descriptor may wait, and the thread has fibers. For wrong
// arguments it returns false: the system's own function then refuses them.
bool waits_here(PyObject* const* args, Py_ssize_t count) {
    if (count != 2 || !PyLong_CheckExact(args[0])) return false;
    long fd = PyLong_AsLong(args[0]);
    if (fd == -1) PyErr_Clear();
    return fd >= 0 && fd <= INT_MAX && waiting_of(int(fd)) == Waiting::blocks && may_wait();
}

// Calls the unpatched function of that name, which the module posix keeps.
PyObject* call_posix(const char* name, PyObject* const* args, Py_ssize_t count) {
    if (!poll_turn()) return nullptr;
    PyObject* module = PyImport_ImportModule("posix");
    PyObject* function = module ? PyObject_GetAttrString(module, name) : nullptr;
    PyObject* result = function ? PyObject_Vectorcall(function, args, size_t(count), nullptr) : nullptr;
    Py_XDECREF(function);
    Py_XDECREF(module);
    return result;
}

PyObject* os_read(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    bool here = waits_here(args, count) && PyLong_CheckExact(args[1]) && Py_SIZE(args[1]) >= 0;
    return here ? read(self, args, count) : call_posix("read", args, count);
}

// Writes all bytes, as write(2) does to a blocking descriptor. If a cancel or an error ends it in between, it returns
// the number of bytes written; the next call raises the exception.
PyObject* write_all(int fd, iovec* parts, int count) {
    size_t whole = 0;
    for (int i = 0; i < count; i++) whole += parts[i].iov_len;
    size_t written = 0;
    int64_t result = perform("write", nullptr, [&]() -> int64_t {
        do {
            int64_t some = fiber_writev(fd, parts, count);
            if (some < 0) return written && some != -EINTR ? int64_t(written) : some;
            written += size_t(some);
            for (size_t left = size_t(some); left;) {
                size_t here = left < parts->iov_len ? left : parts->iov_len;
                parts->iov_base = static_cast<char*>(parts->iov_base) + here;
                parts->iov_len -= here;
                left -= here;
                if (left) parts++, count--;
            }
        } while (written < whole);
        return int64_t(written);
    });
    return result < 0 ? nullptr : PyLong_FromLongLong(result);
}

PyObject* os_write(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!waits_here(args, count)) return call_posix("write", args, count);
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[1], &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    iovec part = {buffer.buf, size_t(buffer.len)};
    PyObject* result = write_all(int(PyLong_AsLong(args[0])), &part, 1);
    PyBuffer_Release(&buffer);
    return result;
}

PyObject* os_readv(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!waits_here(args, count) || !PySequence_Check(args[1])) return call_posix("readv", args, count);
    Buffers buffers;
    if (!buffers.take(args[1], PyBUF_WRITABLE)) return nullptr;
    int fd = int(PyLong_AsLong(args[0]));
    int64_t result = perform("readv", nullptr, [&] { return fiber_readv(fd, buffers.parts(), buffers.count()); });
    return result < 0 ? nullptr : PyLong_FromLongLong(result);
}

PyObject* os_writev(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!waits_here(args, count) || !PySequence_Check(args[1])) return call_posix("writev", args, count);
    Buffers buffers;
    if (!buffers.take(args[1], PyBUF_SIMPLE)) return nullptr;
    return write_all(int(PyLong_AsLong(args[0])), buffers.parts(), buffers.count());
}

} // namespace

PyMethodDef io_functions[] = {
    {"recv", as_method(recv), METH_FASTCALL,
     "recv(fd, size, flags=0, timeout=None, /)\n--\n\nReceive up to size bytes from a socket."},
    {"recv_into", as_method(recv_into), METH_FASTCALL,
     "recv_into(fd, buffer, size=0, flags=0, timeout=None, /)\n--\n\nReceive up to size bytes into a buffer; 0: "
     "up to its size."},
    {"send", as_method(send), METH_FASTCALL,
     "send(fd, data, flags=0, timeout=None, /)\n--\n\nSend some of the data; return the number of bytes."},
    {"sendall", as_method(sendall), METH_FASTCALL,
     "sendall(fd, data, flags=0, timeout=None, /)\n--\n\nSend all of the data."},
    {"accept", as_method(accept), METH_FASTCALL,
     "accept(fd, timeout=None, /)\n--\n\nAccept the next connection; return its descriptor, with O_CLOEXEC."},
    {"connect", as_method(connect), METH_FASTCALL,
     "connect(fd, address, timeout=None, /)\n--\n\nConnect a socket to an address, the bytes of a struct sockaddr."},
    {"read", as_method(read), METH_FASTCALL,
     "read(fd, size, timeout=None, /)\n--\n\nRead up to size bytes from any descriptor."},
    {"write", as_method(write), METH_FASTCALL,
     "write(fd, data, timeout=None, /)\n--\n\nWrite some of the data; return the number of bytes."},
    {"os_read", as_method(os_read), METH_FASTCALL,
     "os_read(fd, length, /)\n--\n\nos.read(), but wait as a fiber for a pipe, a socket, a terminal or an eventfd that "
     "would block the thread."},
    {"os_write", as_method(os_write), METH_FASTCALL,
     "os_write(fd, data, /)\n--\n\nos.write(), but wait as a fiber for a pipe, a socket, a terminal or an eventfd that "
     "would block the thread."},
    {"os_readv", as_method(os_readv), METH_FASTCALL,
     "os_readv(fd, buffers, /)\n--\n\nos.readv() that waits like os_read()."},
    {"os_writev", as_method(os_writev), METH_FASTCALL,
     "os_writev(fd, buffers, /)\n--\n\nos.writev() that waits like os_write()."},
    {"may_wait", may_wait_here, METH_NOARGS,
     "may_wait()\n--\n\nWhether the caller may wait as a fiber.\nIts thread has fibers, and it runs neither in a "
     "greenlet nor during a switch."},
    {"would_wait", would_wait, METH_O,
     "would_wait(fd, /)\n--\n\nWhether reading or writing the descriptor may block the thread and may_wait() is true.\n"
     "Such a descriptor is a pipe, a socket, a terminal or an eventfd without O_NONBLOCK. With O_NONBLOCK, the call "
     "counts as a poll: poll_turn()."},
    {"open", as_method(open), METH_FASTCALL,
     "open(path, flags, mode, dir_fd, /)\n--\n\nOpen a file, with O_CLOEXEC.\nThe wait for the other end of a FIFO "
     "does "
     "not block a thread."},
    {"splice", as_method(splice), METH_FASTCALL,
     "splice(src, dst, count, offset_src, offset_dst, flags, /)\n--\n\nMove up to count bytes from or to a pipe.\n"
     "Return the number of bytes."},
    {"descriptor", descriptor_of, METH_O,
     "descriptor(file, /)\n--\n\nReturn the descriptor: the int itself, or the result of the file's fileno()."},
    {"close", close, METH_O,
     "close(fd, /)\n--\n\nClose a descriptor. Operations of other fibers on it first end with EBADF."},
    {"wait_fd", as_method(wait_fd), METH_FASTCALL,
     "wait_fd(fd, events, timeout=None, /)\n--\n\nWait until a descriptor is ready for one of the events (POLLIN, …).\n"
     "Return the events that are ready, or 0 if the timeout, in seconds, passed first."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
