// SPDX-License-Identifier: MIT OR Apache-2.0
#include "slow.h"

#include "functions.h"
#include "sync.h"

#include <algorithm>
#include <errno.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

namespace fiberrt_python {

namespace {

struct Position {
    fiber_sem_t turn;
    int users; // those that have the turn or wait for it
};

// The GIL guards both.
std::map<int, Position> positions; // by descriptor
pid_t positions_of;                // in the child of a fork, no fiber of the parent uses a position

constexpr off_t no_offset = -1; // of a file that has no position

// Reads bytes from an offset; a file that ends earlier has fewer. Returns the number, or -1.
ssize_t read_part(int fd, char* memory, size_t size, off_t offset) {
    ssize_t got;
    Py_BEGIN_ALLOW_THREADS do got = offset == no_offset ? ::read(fd, memory, size) : ::pread(fd, memory, size, offset);
    while (got < 0 && errno == EINTR)
        ;
    Py_END_ALLOW_THREADS return got;
}

// How many bytes follow the offset.
off_t bytes_left(int fd, off_t offset) {
    struct stat status;
    int error;
    Py_BEGIN_ALLOW_THREADS error = fstat(fd, &status);
    Py_END_ALLOW_THREADS return !error && status.st_size > offset ? status.st_size - offset : 0;
}

PyObject* read_all_from(int fd, off_t offset) {
    Py_ssize_t room = Py_ssize_t(std::min<off_t>(offset < 0 ? 0 : bytes_left(fd, offset), PY_SSIZE_T_MAX / 4)) +
                      1; // one more: the end
    Py_ssize_t used = 0;
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, room);
    while (bytes) {
        if (used == room) {
            if (room > PY_SSIZE_T_MAX / 4) {
                Py_DECREF(bytes);
                return PyErr_Format(PyExc_OverflowError, "the file is too large for a bytes object");
            }
            room += std::max<Py_ssize_t>(room, 8192);
            if (_PyBytes_Resize(&bytes, room) < 0) return nullptr;
        }
        ssize_t got = read_part(fd, PyBytes_AS_STRING(bytes) + used, size_t(room - used),
                                offset == no_offset ? offset : offset + used);
        if (got < 0) {
            Py_DECREF(bytes);
            return PyErr_SetFromErrno(PyExc_OSError);
        }
        if (got == 0) {
            if (used != room) _PyBytes_Resize(&bytes, used);
            return bytes;
        }
        used += got;
    }
    return nullptr;
}

// Called on a thread: (fd, size, offset). Does not touch the file's position.
PyObject* read_from(PyObject*, PyObject* const* args, Py_ssize_t) {
    int fd = int(PyLong_AsLong(args[0]));
    Py_ssize_t size = PyLong_AsSsize_t(args[1]);
    off_t offset = PyLong_AsLongLong(args[2]);
    if (size < 0) return read_all_from(fd, offset);
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, size);
    if (!bytes) return nullptr;
    ssize_t got = read_part(fd, PyBytes_AS_STRING(bytes), size_t(size), offset);
    if (got < 0) {
        Py_DECREF(bytes);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (got != size) _PyBytes_Resize(&bytes, got);
    return bytes;
}

PyMethodDef read_from_method = {"read", as_method(read_from), METH_FASTCALL, nullptr};

PyObject* read_on_thread(int fd, Py_ssize_t size, off_t offset) {
    static PyObject* function = PyCFunction_New(&read_from_method, nullptr);
    PyObject* args[] = {function, PyLong_FromLong(fd), PyLong_FromSsize_t(size), PyLong_FromLongLong(offset)};
    bool made = args[0] && args[1] && args[2] && args[3];
    PyObject* bytes = nullptr;
    if (made) bytes = (offset == no_offset ? offload : offload_detached)(nullptr, args, 4, nullptr);
    for (int i = 1; i < 4; i++) Py_XDECREF(args[i]);
    return bytes;
}

} // namespace

SlowPosition::SlowPosition(int fd, bool in_any_case) : fd_(fd), process_(getpid()) {
    if (positions_of != process_) positions.clear();
    positions_of = process_;
    auto [place, is_new] = positions.try_emplace(fd);
    Position& position = place->second; // stays in its place
    if (is_new) fiber_sem_init(&position.turn, 1);
    position.users++;
    held_ = fiber_sem_trywait(&position.turn, 1) == 0 ||
            (in_any_case ? take_in_any_case(&position.turn)
                         : sem_take_slowly(&position.turn, Timeout(), "file") == Got::yes);
    if (!held_ && --position.users == 0) positions.erase(fd);
}

SlowPosition::~SlowPosition() {
    if (!held_ || positions_of != process_) return;
    auto place = positions.find(fd_);
    fiber_sem_post(&place->second.turn, 1);
    if (--place->second.users == 0) positions.erase(place);
}

bool slow_position_in_use(int fd) { return !positions.empty() && positions_of == getpid() && positions.count(fd); }

PyObject* read_slow(int fd, Py_ssize_t size, const int* now_fd) {
    SlowPosition position(fd, false);
    if (!position.held()) return nullptr;
    off_t at = now_fd && *now_fd != fd ? -1 : lseek(fd, 0, SEEK_CUR);
    if (at < 0 && now_fd && *now_fd != fd) return raise_errno(-EBADF);
    if (at < 0 && errno != ESPIPE) return raise_errno(-errno);
    PyObject* bytes = read_on_thread(fd, size, at);
    // The program may have closed the file or moved its position.
    if (at >= 0 && bytes && PyBytes_GET_SIZE(bytes) && (!now_fd || *now_fd == fd) && lseek(fd, 0, SEEK_CUR) == at)
        lseek(fd, at + PyBytes_GET_SIZE(bytes), SEEK_SET);
    return bytes;
}

} // namespace fiberrt_python
