// SPDX-License-Identifier: MIT OR Apache-2.0
// Input and output on descriptors. Each function takes a timeout in seconds as its last argument, None for ever, and
// raises TimeoutError when the timeout has passed.
#include "files.h"
#include "functions.h"
#include "slow.h"
#include "transfer.h"

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

bool may_wait() { return this_world && in_own_frames(this_world) && fiber_here() == 1; }

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
    struct statx status;
    if (!known_status(fd, &status)) return Waiting::never;
    mode_t kind = status.stx_mode & S_IFMT;
    if (kind == S_IFCHR ? !isatty(fd) : kind != S_IFIFO && kind != S_IFSOCK && kind != 0) return Waiting::never;
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? Waiting::never : flags & O_NONBLOCK ? Waiting::nonblocking : Waiting::blocks;
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

// Returns the descriptor, if so many arguments are given and the first is a plain number; else -1.
int plain_descriptor(PyObject* const* args, Py_ssize_t count, Py_ssize_t wanted) {
    if (count != wanted || !PyLong_CheckExact(args[0])) return -1;
    long fd = PyLong_AsLong(args[0]);
    if (fd == -1) PyErr_Clear();
    return fd >= 0 && fd <= INT_MAX ? int(fd) : -1;
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
    int fd = plain_descriptor(args, count, 2);
    return fd >= 0 && waiting_of(fd) == Waiting::blocks && may_wait();
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

// Calls that function on another thread, for a slow file system. If it `changes` the file, it is called even in a
// cancelled fiber; else a cancel ends the wait at once.
PyObject* call_posix_elsewhere(const char* name, PyObject* const* args, Py_ssize_t count, bool changes) {
    PyObject* module = PyImport_ImportModule("posix");
    PyObject* all[4] = {module ? PyObject_GetAttrString(module, name) : nullptr};
    for (Py_ssize_t i = 0; i < count; i++) all[i + 1] = args[i];
    PyObject* result =
        all[0] ? (changes ? offload_shielded : offload_detached)(nullptr, all, count + 1, nullptr) : nullptr;
    Py_XDECREF(all[0]);
    Py_XDECREF(module);
    return result;
}

// Whether it is a number of bytes; if not, the system's function is to refuse it.
bool is_size(PyObject* object) {
    Py_ssize_t size = PyLong_CheckExact(object) ? PyLong_AsSsize_t(object) : -1;
    PyErr_Clear();
    return size >= 0;
}

// Reads at once what is there. Returns null if the caller must try another way, and if an exception is set.
PyObject* bytes_at_once(int fd, PyObject* size, int64_t position) {
    Py_ssize_t room = PyLong_AsSsize_t(size);
    bool raised;
    if (room < 0) return nullptr;
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, room);
    if (!bytes) return nullptr;
    int64_t got = read_at_once(fd, PyBytes_AS_STRING(bytes), size_t(room), position, &raised);
    if (got < 0)
        Py_CLEAR(bytes);
    else if (got != room)
        _PyBytes_Resize(&bytes, Py_ssize_t(got));
    return bytes;
}

PyObject* os_read(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    int fd = plain_descriptor(args, count, 2);
    if (fd < 0 || !is_size(args[1]) || !may_wait()) return call_posix("read", args, count);
    PyObject* bytes = slow_position_in_use(fd) ? nullptr : bytes_at_once(fd, args[1], own_position);
    if (bytes || PyErr_Occurred()) return bytes;
    FileKind kind = kind_of(fd);
    if (kind == FileKind::slow) return read_slow(fd, PyLong_AsSsize_t(args[1]));
    if (kind == FileKind::disk)
        return into_bytes(args[1], [&](char* memory, size_t room) { return read_file(fd, memory, room); });
    return waiting_of(fd) == Waiting::blocks ? read(self, args, count) : call_posix("read", args, count);
}

PyObject* os_write(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int fd = plain_descriptor(args, count, 2);
    if (fd < 0 || !may_wait()) return call_posix("write", args, count);
    FileKind kind = kind_of(fd);
    if (kind == FileKind::slow) {
        SlowPosition position(fd, true);
        return position.held() ? call_posix_elsewhere("write", args, count, true) : nullptr;
    }
    bool on_disk = kind == FileKind::disk && this_world->live_count;
    if (!on_disk && waiting_of(fd) != Waiting::blocks) return call_posix("write", args, count);
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[1], &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    iovec part = {buffer.buf, size_t(buffer.len)};
    int64_t result = on_disk ? write_file(fd, static_cast<char*>(buffer.buf), part.iov_len) : write_all(fd, &part, 1);
    PyBuffer_Release(&buffer);
    return result < 0 ? nullptr : PyLong_FromLongLong(result);
}

// Parses the offset of os_pread() and os_pwrite(); false: the system's function is to refuse it.
bool is_offset(PyObject* object, int64_t* offset) {
    *offset = PyLong_CheckExact(object) ? PyLong_AsLongLong(object) : -1;
    PyErr_Clear();
    return *offset >= 0;
}

PyObject* os_pread(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int64_t offset;
    int fd = plain_descriptor(args, count, 3);
    if (fd < 0 || !is_size(args[1]) || !is_offset(args[2], &offset) || !may_wait())
        return call_posix("pread", args, count);
    PyObject* bytes = bytes_at_once(fd, args[1], offset);
    if (bytes || PyErr_Occurred()) return bytes;
    FileKind kind = kind_of(fd);
    if (kind == FileKind::slow) return call_posix_elsewhere("pread", args, count, false);
    if (kind != FileKind::disk) return call_posix("pread", args, count);
    return into_bytes(args[1], [&](char* memory, size_t room) { return read_file(fd, memory, room, offset); });
}

PyObject* os_pwrite(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int64_t offset;
    int fd = plain_descriptor(args, count, 3);
    FileKind kind = fd >= 0 && is_offset(args[2], &offset) && may_wait() ? kind_of(fd) : FileKind::unknown;
    if (kind == FileKind::slow) return call_posix_elsewhere("pwrite", args, count, true);
    if (kind != FileKind::disk || !this_world->live_count) return call_posix("pwrite", args, count);
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[1], &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    int64_t result = write_file(fd, static_cast<char*>(buffer.buf), size_t(buffer.len), offset);
    PyBuffer_Release(&buffer);
    return result < 0 ? nullptr : PyLong_FromLongLong(result);
}

template <int (*call)(int)>
PyObject* sync_file(PyObject*, PyObject* file) {
    int fd;
    if (!descriptor(file, &fd) || perform("fsync", nullptr, [&] { return call(fd); }) < 0) return nullptr;
    Py_RETURN_NONE;
}

PyObject* path_waits(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int folder = AT_FDCWD;
    PyObject* path = nullptr;
    if (!takes("open_waits", count, 2, 2)) return nullptr;
    bool usable = (args[1] == Py_None || flags_of(args[1], &folder)) && PyUnicode_FSConverter(args[0], &path);
    if (!usable) PyErr_Clear(); // the open itself will tell
    bool result = usable && may_wait() && open_waits(folder, PyBytes_AS_STRING(path));
    Py_XDECREF(path);
    return PyBool_FromLong(result);
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
    int64_t result = write_all(int(PyLong_AsLong(args[0])), buffers.parts(), buffers.count());
    return result < 0 ? nullptr : PyLong_FromLongLong(result);
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
     "os_read(fd, length, /)\n--\n\nos.read(), but wait as a fiber for the data of a file, and for a pipe, a socket, a "
     "terminal or an eventfd that would block the thread."},
    {"os_write", as_method(os_write), METH_FASTCALL,
     "os_write(fd, data, /)\n--\n\nos.write(), but wait as a fiber for a file, and for a pipe, a socket, a terminal or "
     "an eventfd that would block the thread."},
    {"os_readv", as_method(os_readv), METH_FASTCALL,
     "os_readv(fd, buffers, /)\n--\n\nos.readv() that waits like os_read()."},
    {"os_writev", as_method(os_writev), METH_FASTCALL,
     "os_writev(fd, buffers, /)\n--\n\nos.writev() that waits like os_write()."},
    {"os_pread", as_method(os_pread), METH_FASTCALL,
     "os_pread(fd, length, offset, /)\n--\n\nos.pread(), but wait as a fiber for the data of a file."},
    {"os_pwrite", as_method(os_pwrite), METH_FASTCALL,
     "os_pwrite(fd, data, offset, /)\n--\n\nos.pwrite(), but wait as a fiber for a file."},
    {"fsync", sync_file<fiber_fsync>, METH_O,
     "fsync(fd, /)\n--\n\nWait until the data and metadata of a file are on stable storage."},
    {"fdatasync", sync_file<fiber_fdatasync>, METH_O,
     "fdatasync(fd, /)\n--\n\nWait until the data of a file are on stable storage."},
    {"open_waits", as_method(path_waits), METH_FASTCALL,
     "open_waits(path, dir_fd, /)\n--\n\nWhether an open of the path should wait as a fiber: it names a FIFO, or a "
     "slow file system has it.\nFalse if may_wait() is."},
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
