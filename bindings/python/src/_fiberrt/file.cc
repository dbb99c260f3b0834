// SPDX-License-Identifier: MIT OR Apache-2.0
// FileIO: io.FileIO whose calls wait as fibers. The standard library's object owns the descriptor and the mode. Where
// the caller cannot wait as a fiber, or a call would fail, the standard library's method runs instead.
#include "files.h"
#include "functions.h"
#include "mounts.h"
#include "slow.h"
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fiberrt_python {

namespace {

// The beginning of _io.FileIO's struct, which has no public header. fits() checks that it fits.
struct File {
    PyObject_HEAD int fd; // -1: closed
    unsigned created : 1;
    unsigned readable : 1;
    unsigned writable : 1;
    unsigned appending : 1;
    signed seekable : 2;
    unsigned closefd : 1;
};

File* of(PyObject* self) { return reinterpret_cast<File*>(self); }

PyTypeObject* base; // _io.FileIO

// Follows the standard library's struct.
struct Extra {
    FileKind kind;
};

Extra* extra_of(PyObject* self) { return reinterpret_cast<Extra*>(reinterpret_cast<char*>(self) + rounded_size(base)); }

enum Method {
    method_read,
    method_readall,
    method_readinto,
    method_write,
    method_close,
    method_truncate,
    method_seek,
    method_isatty,
    method_init,
    method_count
};
constexpr const char* method_names[] = {"read",     "readall", "readinto", "write",   "close",
                                        "truncate", "seek",    "isatty",   "__init__"};
PyObject* originals[method_count]; // methods of _io.FileIO

PyObject* call_base(Method method, PyObject* self, PyObject* const* args = nullptr, Py_ssize_t count = 0) {
    PyObject* all[4] = {self};
    if (count > 3) return PyErr_Format(PyExc_TypeError, "%s() takes fewer arguments", method_names[method]);
    for (Py_ssize_t i = 0; i < count; i++) all[i + 1] = args[i];
    return PyObject_Vectorcall(originals[method], all, size_t(count) + 1, nullptr);
}

// Calls a method of the standard library on another thread, even in a cancelled fiber: data must not be lost.
PyObject* call_base_elsewhere(Method method, PyObject* self, PyObject* const* args = nullptr, Py_ssize_t count = 0) {
    PyObject* all[4] = {originals[method], self};
    for (Py_ssize_t i = 0; i < count; i++) all[i + 2] = args[i];
    return offload_shielded(nullptr, all, count + 2, nullptr);
}

// The file is of a slow file system, and is used on other threads.
bool is_elsewhere(PyObject* self) { return extra_of(self)->kind == FileKind::slow && of(self)->fd >= 0 && may_wait(); }

// Calls a method that uses the position of the file.
PyObject* call_change_elsewhere(Method method, PyObject* self, PyObject* const* args, Py_ssize_t count) {
    SlowPosition position(of(self)->fd, true);
    return position.held() ? call_base_elsewhere(method, self, args, count) : nullptr;
}

PyObject* call_base_where_it_waits(Method method, PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!is_elsewhere(self) || count > 2) return call_base(method, self, args, count);
    return call_change_elsewhere(method, self, args, count);
}

// Programs put other files into the place of the standard ones, by dup2(2).
void refresh_kind(PyObject* self) {
    if (of(self)->fd >= 0 && of(self)->fd <= STDERR_FILENO) extra_of(self)->kind = kind_of(of(self)->fd);
}

// Whether a transfer waits as a fiber. *result is set to false if an exception is set.
bool waits(PyObject* self, bool may_transfer, bool* result) {
    *result = true;
    refresh_kind(self);
    FileKind kind = extra_of(self)->kind;
    if (!may_transfer || of(self)->fd < 0 || (kind != FileKind::disk && kind != FileKind::stream) || !may_wait())
        return false;
    if (kind == FileKind::disk) return true;
    int flags = fcntl(of(self)->fd, F_GETFL);
    if (flags >= 0 && !(flags & O_NONBLOCK)) return true;
    *result = poll_turn();
    return false;
}

int64_t read_some(PyObject* self, char* memory, size_t size, bool* at_end = nullptr) {
    FileKind kind = extra_of(self)->kind;
    int fd = of(self)->fd;
    if (kind == FileKind::disk) return read_file(fd, memory, size, own_position, at_end);
    return perform("read", Timeout(), [&] { return fiber_read(fd, memory, size); });
}

PyObject* read_elsewhere(PyObject* self, Py_ssize_t size) { return read_slow(of(self)->fd, size, &of(self)->fd); }

PyObject* readall(PyObject* self, PyObject*) {
    bool fine;
    if (of(self)->readable && is_elsewhere(self)) return read_elsewhere(self, -1);
    if (!waits(self, of(self)->readable, &fine)) return fine ? call_base(method_readall, self) : nullptr;
    constexpr Py_ssize_t least = 8192;
    Py_ssize_t room = least;
    struct stat status;
    if (extra_of(self)->kind == FileKind::disk && fstat(of(self)->fd, &status) == 0) {
        off_t position = status.st_size > least ? lseek(of(self)->fd, 0, SEEK_CUR) : 0;
        off_t left = status.st_size - (position > 0 ? position : 0);
        if (left >= 0 && left < PY_SSIZE_T_MAX) room = Py_ssize_t(left) + 1; // one more, to see the end
    }
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, room);
    Py_ssize_t used = 0;
    while (bytes) {
        if (used == room) {
            Py_ssize_t more = room < least ? least : room;
            if (room > PY_SSIZE_T_MAX - more) {
                PyErr_SetString(PyExc_OverflowError,
                                "unbounded read returned more bytes than a Python bytes object can hold");
                break;
            }
            room += more;
            if (_PyBytes_Resize(&bytes, room) < 0) return nullptr;
        }
        if (of(self)->fd < 0) { // another fiber has closed it
            raise_errno(-EBADF);
            break;
        }
        bool at_end = false;
        int64_t got = read_some(self, PyBytes_AS_STRING(bytes) + used, size_t(room - used), &at_end);
        if (got < 0) break;
        used += Py_ssize_t(got);
        if (got == 0 || at_end) {
            if (used != room) _PyBytes_Resize(&bytes, used);
            return bytes;
        }
    }
    Py_XDECREF(bytes);
    return nullptr;
}

PyObject* read(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count > 1) return call_base(method_read, self, args, count);
    Py_ssize_t size = -1;
    if (count && args[0] != Py_None) {
        if (!PyIndex_Check(args[0])) return call_base(method_read, self, args, count);
        size = PyNumber_AsSsize_t(args[0], PyExc_OverflowError);
        if (size == -1 && PyErr_Occurred()) return nullptr;
    }
    if (size < 0 && of(self)->readable && of(self)->fd >= 0)
        return Py_TYPE(self) == FileType ? readall(self, nullptr) : PyObject_CallMethod(self, "readall", nullptr);
    bool fine;
    if (of(self)->readable && is_elsewhere(self)) return read_elsewhere(self, size);
    if (!waits(self, of(self)->readable, &fine)) return fine ? call_base(method_read, self, args, count) : nullptr;
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, size);
    if (!bytes) return nullptr;
    int64_t got = read_some(self, PyBytes_AS_STRING(bytes), size_t(size));
    if (got < 0) {
        Py_DECREF(bytes);
        return nullptr;
    }
    if (got != size) _PyBytes_Resize(&bytes, Py_ssize_t(got));
    return bytes;
}

// After a cancel the thread still reads, but not into the buffer, which may be freed then.
PyObject* read_elsewhere_into(PyObject* self, const Py_buffer& view) {
    PyObject* bytes = read_elsewhere(self, view.len);
    if (!bytes || !PyBytes_Check(bytes)) return bytes; // None, or an exception
    Py_ssize_t got = PyBytes_GET_SIZE(bytes);
    memcpy(view.buf, PyBytes_AS_STRING(bytes), size_t(got));
    Py_DECREF(bytes);
    return PyLong_FromSsize_t(got);
}

PyObject* readinto(PyObject* self, PyObject* buffer) {
    bool fine, elsewhere = of(self)->readable && is_elsewhere(self);
    if (!elsewhere && !waits(self, of(self)->readable, &fine))
        return fine ? call_base(method_readinto, self, &buffer, 1) : nullptr;
    Py_buffer view;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE) < 0) {
        PyErr_Clear();
        return call_base(method_readinto, self, &buffer, 1); // which raises the exception
    }
    PyObject* result = nullptr;
    if (elsewhere) {
        result = read_elsewhere_into(self, view);
    } else {
        int64_t got = read_some(self, static_cast<char*>(view.buf), size_t(view.len));
        if (got >= 0) result = PyLong_FromLongLong(got);
    }
    PyBuffer_Release(&view);
    return result;
}

PyObject* write(PyObject* self, PyObject* data) {
    bool fine;
    refresh_kind(self);
    FileKind kind = extra_of(self)->kind;
    if (is_elsewhere(self)) return call_change_elsewhere(method_write, self, &data, 1);
    // Without other fibers, a write to a disk may as well block the thread.
    if ((kind == FileKind::disk && !(this_world && this_world->live_count)) || !waits(self, of(self)->writable, &fine))
        return kind == FileKind::disk || fine ? call_base(method_write, self, &data, 1) : nullptr;
    Py_buffer view;
    if (PyUnicode_Check(data) || PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return call_base(method_write, self, &data, 1);
    }
    int64_t written;
    if (kind == FileKind::stream) {
        iovec part = {view.buf, size_t(view.len)};
        written = write_all(of(self)->fd, &part, 1, true); // a BufferedWriter needs the number
    } else {
        written = write_file(of(self)->fd, static_cast<char*>(view.buf), size_t(view.len));
    }
    PyBuffer_Release(&view);
    return written < 0 ? nullptr : PyLong_FromLongLong(written);
}

// Waits of other fibers on a stream first end with EBADF.
PyObject* close(PyObject* self, PyObject*) {
    File* file = of(self);
    if (is_elsewhere(self)) return call_base_elsewhere(method_close, self);
    if (extra_of(self)->kind != FileKind::stream || file->fd < 0 || !file->closefd || !may_wait())
        return call_base(method_close, self);
    if (PyObject* finalizing = PyObject_GetAttrString(self, "_finalizing")) {
        bool warns = finalizing == Py_True;
        Py_DECREF(finalizing);
        PyObject* done = warns ? PyObject_CallMethod(self, "_dealloc_warn", "O", self) : Py_NewRef(Py_None);
        if (!done) PyErr_WriteUnraisable(self);
        Py_XDECREF(done);
    } else {
        PyErr_Clear();
    }
    int fd = file->fd;
    file->closefd = 0;
    PyObject* result = call_base(method_close, self);
    file->closefd = 1;
    file->fd = -1;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    WaitsFor reason("close");
    int error = fiber_close(fd);
    if (error == -EPERM) error = ::close(fd) < 0 ? -errno : 0;
    if (type) {
        PyErr_Restore(type, value, traceback);
    } else if (error < 0) {
        Py_CLEAR(result);
        raise_errno(error);
    }
    return result;
}

PyObject* truncate(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    return call_base_where_it_waits(method_truncate, self, args, count);
}

PyObject* seek(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    return call_base_where_it_waits(method_seek, self, args, count);
}

PyObject* isatty(PyObject* self, PyObject*) {
    FileKind kind = extra_of(self)->kind;
    if (of(self)->fd >= 0 && (kind == FileKind::disk || kind == FileKind::slow)) Py_RETURN_FALSE;
    return call_base(method_isatty, self);
}

// ---- Opening

PyObject* open_as_fiber(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int flags;
    PyObject* path;
    if (!takes("opener", count, 2, 2) || !flags_of(args[1], &flags) || !PyUnicode_FSConverter(args[0], &path))
        return nullptr;
    int64_t fd = -1;
    if (world()) {
        const char* name = PyBytes_AS_STRING(path);
        WaitsFor reason("open");
        for (bool again = true; again;) {
            fd = fiber_open(name, flags | O_CLOEXEC, 0666);
            again = false;
            switch (settle_io(fd)) {
            case Settled::again:
            case Settled::timed_out: again = true; break;
            case Settled::failed:
                errno = int(-fd);
                PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, args[0]);
                break;
            case Settled::done:
            case Settled::raised: break;
            }
        }
    }
    Py_DECREF(path);
    return PyErr_Occurred() ? nullptr : PyLong_FromLongLong(fd);
}

PyMethodDef opener_method = {"opener", as_method(open_as_fiber), METH_FASTCALL, nullptr};
PyMethodDef shielded_method = {"offload_shielded", as_method(offload_shielded), METH_FASTCALL | METH_KEYWORDS, nullptr};
PyMethodDef detached_method = {"offload_detached", as_method(offload_detached), METH_FASTCALL | METH_KEYWORDS, nullptr};

bool is_fifo(int folder, const char* path) {
    struct stat status;
    return fstatat(folder, path, &status, 0) == 0 && S_ISFIFO(status.st_mode);
}

enum class Opening { at_once, fifo, slow };

// How the standard library's __init__ would wait for the file that its first argument names.
Opening opening_of(PyObject* file) {
    if (!may_wait()) return Opening::at_once;
    if (PyIndex_Check(file)) { // a descriptor: __init__ asks for the status of the file
        int fd = PyObject_AsFileDescriptor(file);
        PyErr_Clear();
        return fd >= 0 && descriptor_is_slow(fd) ? Opening::slow : Opening::at_once;
    }
    PyObject* path;
    if (!PyUnicode_FSConverter(file, &path)) {
        PyErr_Clear(); // the standard library's __init__ tells
        return Opening::at_once;
    }
    const char* name = PyBytes_AS_STRING(path);
    Opening result = path_is_slow(AT_FDCWD, name) ? Opening::slow
                     : is_fifo(AT_FDCWD, name)    ? Opening::fifo
                                                  : Opening::at_once;
    Py_DECREF(path);
    return result;
}

// Calls the standard library's __init__ with an opener that waits as a fiber.
int init_with_opener(PyObject* self, PyObject* args, PyObject* names) {
    static PyObject* opener = PyCFunction_New(&opener_method, nullptr);
    PyObject* some = opener ? PyTuple_GetSlice(args, 0, 3) : nullptr;
    PyObject* more = names ? PyDict_Copy(names) : PyDict_New();
    int result = -1;
    if (some && more && PyDict_SetItemString(more, "opener", opener) == 0) result = base->tp_init(self, some, more);
    Py_XDECREF(some);
    Py_XDECREF(more);
    return result;
}

PyObject* argument(PyObject* args, PyObject* names, Py_ssize_t place, const char* name) {
    if (PyTuple_GET_SIZE(args) > place) return PyTuple_GET_ITEM(args, place);
    return names ? PyDict_GetItemString(names, name) : nullptr;
}

// Lets a thread call the standard library's __init__. If the mode allows to make or change the file, a cancel does not
// end the wait. Else the thread opens the file also after a cancel; as the last owner of the object it closes the file.
int init_elsewhere(PyObject* self, PyObject* args, PyObject* names) {
    PyObject* mode = argument(args, names, 1, "mode");
    const char* letters = mode && PyUnicode_Check(mode) ? PyUnicode_AsUTF8(mode) : "r";
    if (!letters) return -1;
    PyMethodDef* method = strpbrk(letters, "wax") ? &shielded_method : &detached_method;
    PyObject* function = PyCFunction_New(method, nullptr);
    PyObject* all = PyTuple_New(PyTuple_GET_SIZE(args) + 2);
    PyObject* done = nullptr;
    if (function && all) {
        PyTuple_SET_ITEM(all, 0, Py_NewRef(originals[method_init]));
        PyTuple_SET_ITEM(all, 1, Py_NewRef(self));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++)
            PyTuple_SET_ITEM(all, i + 2, Py_NewRef(PyTuple_GET_ITEM(args, i)));
        done = PyObject_Call(function, all, names);
    }
    Py_XDECREF(function);
    Py_XDECREF(all);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int file_init(PyObject* self, PyObject* args, PyObject* names) {
    extra_of(self)->kind = FileKind::unknown;
    PyObject* file = argument(args, names, 0, "file");
    PyObject* opener = argument(args, names, 3, "opener");
    Opening opening = file && (!opener || opener == Py_None) ? opening_of(file) : Opening::at_once;
    int result = opening == Opening::fifo   ? init_with_opener(self, args, names)
                 : opening == Opening::slow ? init_elsewhere(self, args, names)
                                            : base->tp_init(self, args, names);
    if (result == 0) extra_of(self)->kind = kind_of(of(self)->fd);
    return result;
}

PyMethodDef methods[] = {
    {"read", as_method(read), METH_FASTCALL,
     "read($self, size=-1, /)\n--\n\nRead at most size bytes, or all up to the end if size is negative or None.\n"
     "Return fewer at the end of the file, and those available from a pipe or terminal. None: O_NONBLOCK is set, and "
     "there is no data."},
    {"readall", readall, METH_NOARGS, "readall($self, /)\n--\n\nRead all data up to the end of the file."},
    {"readinto", readinto, METH_O,
     "readinto($self, buffer, /)\n--\n\nLike read(), into a buffer. Return the number of bytes, 0 at the end."},
    {"write", write, METH_O,
     "write($self, b, /)\n--\n\nWrite bytes, and return their number. None: O_NONBLOCK is set, and there is no room.\n"
     "A cancel or time limit does not end the write of a regular file."},
    {"close", close, METH_NOARGS,
     "close($self, /)\n--\n\nClose the file. Waits of other fibers on a pipe or terminal first end with EBADF."},
    {"truncate", as_method(truncate), METH_FASTCALL,
     "truncate($self, size=None, /)\n--\n\nSet the size in bytes, by default to the position. Return it."},
    {"seek", as_method(seek), METH_FASTCALL, "seek($self, pos, whence=0, /)\n--\n\nMove to a position, and return it."},
    {"isatty", isatty, METH_NOARGS, "isatty($self, /)\n--\n\nWhether the file is a terminal."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_init, reinterpret_cast<void*>(file_init)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("io.FileIO whose calls let other fibers run while they wait.")},
    {0, nullptr},
};

// Whether the struct of _io.FileIO begins as struct File. Returns -1 with an exception set.
int fits() {
    int result = 0;
    for (const char* mode : {"r", "a", "r+"}) {
        PyObject* probe = PyObject_CallFunction(reinterpret_cast<PyObject*>(base), "ss", "/dev/null", mode);
        if (!probe && PyErr_ExceptionMatches(PyExc_OSError)) { // no /dev
            PyErr_Clear();
            return 0;
        }
        if (!probe) return -1;
        PyObject* number = PyObject_CallMethod(probe, "fileno", nullptr);
        const File* file = of(probe);
        bool good = number && base->tp_basicsize >= Py_ssize_t(sizeof(File)) && file->fd == PyLong_AsLong(number) &&
                    file->readable == (mode[0] == 'r') && file->writable == (mode[0] == 'a' || mode[1]) &&
                    file->appending == (mode[0] == 'a') && file->closefd && !file->created;
        Py_XDECREF(number);
        PyObject* closed = PyObject_CallMethod(probe, "close", nullptr);
        if (!good || !closed || file->fd != -1) result = -1;
        Py_XDECREF(closed);
        Py_DECREF(probe);
    }
    if (result < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_ImportError, "fiberrt does not know how this interpreter keeps its files");
    return result;
}

} // namespace

PyTypeObject* FileType;

bool is_own_stream(PyObject* file) {
    return PyObject_TypeCheck(file, FileType) && extra_of(file)->kind == FileKind::stream && of(file)->fd >= 0 &&
           of(file)->closefd;
}

bool open_waits(int folder, const char* path) { return path_is_slow(folder, path) || is_fifo(folder, path); }

PyTypeObject* derive(PyObject* module, PyTypeObject* from, PyType_Slot* with, const char* name, size_t extra) {
    constexpr unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE;
    PyType_Spec spec = {name, int(rounded_size(from) + extra), 0, flags, with};
    PyObject* bases = PyTuple_Pack(1, from);
    PyObject* type = bases ? PyType_FromSpecWithBases(&spec, bases) : nullptr;
    Py_XDECREF(bases);
    if (!type || PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type)) < 0) return nullptr;
    return reinterpret_cast<PyTypeObject*>(type);
}

int files_add(PyObject* module) {
    PyObject* io = PyImport_ImportModule("_io");
    base = io ? reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(io, "FileIO")) : nullptr;
    Py_XDECREF(io);
    if (!base || fits() < 0) return -1;
    for (int i = 0; i < method_count; i++) {
        originals[i] = PyObject_GetAttrString(reinterpret_cast<PyObject*>(base), method_names[i]);
        if (!originals[i]) return -1;
    }
    FileType = derive(module, base, slots, "fiberrt._fiberrt.FileIO", sizeof(Extra));
    return FileType && buffered_add(module) == 0 ? 0 : -1;
}

} // namespace fiberrt_python
