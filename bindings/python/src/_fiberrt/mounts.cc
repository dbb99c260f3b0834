// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of slow mounts, and the functions that use it: see mounts.h.
#include "mounts.h"

#include "functions.h"
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace fiberrt_python {

namespace {

// Names of file systems; also those that begin with one of the names and a dot, such as fuse.sshfs.
constexpr const char* slow_types[] = {
    "9p",     "afs",   "autofs", "beegfs", "ceph",  "cifs",     "coda", "fuse",  "fuseblk",  "gfs2",
    "lustre", "ncpfs", "nfs",    "nfs4",   "ocfs2", "orangefs", "smb3", "smbfs", "virtiofs",
};

std::vector<std::string> also_slow; // set by slow_file_systems()
std::vector<dev_t> slow_devices;
int mounts = -1;         // /proc/self/mountinfo: an event of poll(2) tells that it has changed
pid_t mounts_of;         // the process that has opened it
struct stat mounts_file; // its status then: the program may have closed it, and given the number to another file
bool stale;              // the table must be read again
int64_t looked_at_ns;    // when it was last polled
constexpr int64_t look_again_ns = FIBER_MSEC(10);

bool type_is_slow(const std::string& type) {
    for (const char* slow : slow_types)
        if (type.compare(0, strlen(slow), slow) == 0 && (type.size() == strlen(slow) || type[strlen(slow)] == '.'))
            return true;
    for (const std::string& slow : also_slow)
        if (type == slow) return true;
    return false;
}

// Reads a line of mountinfo: "36 35 98:0 /root /place options - type source options", with more fields before the dash.
void read_mount(const char* line) {
    unsigned major_number, minor_number;
    const char* rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) != 2) return;
    const char* type = rest + 3;
    if (type_is_slow({type, strcspn(type, " ")})) slow_devices.push_back(makedev(major_number, minor_number));
}

void read_mounts() {
    stale = false;
    slow_devices.clear();
    std::string text;
    char part[4096];
    if (lseek(mounts, 0, SEEK_SET) < 0) return;
    for (ssize_t got; (got = ::read(mounts, part, sizeof part)) > 0;) text.append(part, size_t(got));
    for (size_t at = 0; at < text.size();) {
        size_t end = text.find('\n', at);
        if (end == std::string::npos) end = text.size();
        read_mount(text.substr(at, end - at).c_str());
        at = end + 1;
    }
}

bool mounts_is_open() {
    struct stat status;
    return mounts >= 0 && mounts_of == getpid() && fstat(mounts, &status) == 0 && status.st_dev == mounts_file.st_dev &&
           status.st_ino == mounts_file.st_ino;
}

// Does not close the descriptor that a fork has inherited: the child may have given the number to another file.
bool open_mounts() {
    mounts = ::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    mounts_of = getpid();
    if (mounts >= 0 && fstat(mounts, &mounts_file) == 0) read_mounts();
    return mounts >= 0;
}

// The device of a file whose path is cached, without asking its file system. Returns 0 or an errno. *is_link: whether
// the file is a symbolic link, which happens only with O_NOFOLLOW in `flags`.
int cached_device(int folder, const char* path, unsigned flags, dev_t* device, bool* is_link) {
    open_how how = {};
    how.flags = O_PATH | O_CLOEXEC | flags;
    how.resolve = RESOLVE_CACHED;
    int fd = int(syscall(SYS_openat2, folder, path, &how, sizeof how));
    if (fd < 0) return errno;
    struct statx status;
    int error = statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0 ? errno : 0;
    ::close(fd);
    if (!error) *device = makedev(status.stx_dev_major, status.stx_dev_minor);
    if (!error) *is_link = S_ISLNK(status.stx_mode);
    return error;
}

// Of a symbolic link, both the link and the file that it names count: the call may use either.
bool is_slow_if_cached(int folder, const char* path, bool* exists) {
    dev_t device;
    bool is_link = false;
    int error = cached_device(folder, path, O_NOFOLLOW, &device, &is_link);
    if (!error && is_link && !device_is_slow(device)) error = cached_device(folder, path, 0, &device, &is_link);
    *exists = error != ENOENT;
    // EAGAIN: it is not cached. EINVAL, ENOSYS, EPERM: the kernel, or a container's filter, cannot tell.
    if (error) return error == EAGAIN || error == EINVAL || error == ENOSYS || error == EPERM;
    return device_is_slow(device);
}

} // namespace

bool device_is_slow(dev_t device) {
    if (!any_mount_is_slow()) return false;
    for (dev_t slow : slow_devices)
        if (slow == device) return true;
    return false;
}

namespace {

// The real time, coarsely: a look at the core's clock would decide whether the process is simulated, and move the time
// of a simulation.
int64_t coarse_now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return int64_t(now.tv_sec) * FIBER_SEC(1) + now.tv_nsec;
}

} // namespace

bool any_mount_is_slow() {
    int64_t now = coarse_now_ns();
    if (looked_at_ns && now - looked_at_ns < look_again_ns) return !slow_devices.empty();
    looked_at_ns = now;
    if (!mounts_is_open()) return open_mounts() && !slow_devices.empty();
    pollfd events = {mounts, POLLPRI, 0};
    if (stale || poll(&events, 1, 0) > 0) read_mounts();
    return !slow_devices.empty();
}

bool path_is_slow(int folder, const char* path) {
    if (!any_mount_is_slow()) return false;
    bool exists;
    if (is_slow_if_cached(folder, path, &exists)) return true;
    if (exists) return false;
    std::string parent(path); // the call may make the file
    while (!parent.empty() && parent.back() == '/') parent.pop_back();
    size_t slash = parent.rfind('/');
    parent.resize(slash == std::string::npos ? 0 : slash + 1);
    return is_slow_if_cached(folder, parent.empty() ? "." : parent.c_str(), &exists);
}

bool descriptor_is_slow(int fd) {
    if (!any_mount_is_slow()) return false;
    struct statx status;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &status) < 0) return false;
    return device_is_slow(makedev(status.stx_dev_major, status.stx_dev_minor));
}

namespace {

PyObject* is_slow(PyObject*, PyObject* const* args, Py_ssize_t count) {
    int folder = AT_FDCWD;
    if (!takes("is_slow", count, 1, 2)) return nullptr;
    if (PyLong_Check(args[0])) {
        int fd = PyObject_AsFileDescriptor(args[0]);
        if (fd < 0) PyErr_Clear(); // the call itself will tell
        return PyBool_FromLong(fd >= 0 && descriptor_is_slow(fd));
    }
    PyObject* path = nullptr;
    bool usable = (count < 2 || args[1] == Py_None || flags_of(args[1], &folder)) &&
                  (args[0] == Py_None || PyUnicode_FSConverter(args[0], &path));
    if (!usable) PyErr_Clear();
    bool slow = usable && path_is_slow(folder, path ? PyBytes_AS_STRING(path) : ".");
    Py_XDECREF(path);
    return PyBool_FromLong(slow);
}

PyObject* slow_file_systems(PyObject*, PyObject* names) {
    PyObject* all = PySequence_Fast(names, "slow_file_systems() takes a sequence of names");
    if (!all) return nullptr;
    std::vector<std::string> given;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all); i++) {
        const char* name = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(all, i));
        if (!name) {
            Py_DECREF(all);
            return nullptr;
        }
        given.emplace_back(name);
    }
    Py_DECREF(all);
    also_slow.swap(given);
    looked_at_ns = 0;
    stale = true;
    Py_RETURN_NONE;
}

// ---- FileCall: a function that stands for a builtin one. As an attribute of a class it does not become a method. If it
// is one of the module os, it may take another way while a slow file system is mounted.

struct FileCall {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* function;
    PyObject* slowly; // called with the function and its arguments; None: there is no other way
    PyObject* weak_references;
};

FileCall* call_of(PyObject* self) { return reinterpret_cast<FileCall*>(self); }

PyObject* call(PyObject* self, PyObject* const* args, size_t flagged, PyObject* names) {
    FileCall* me = call_of(self);
    if (me->slowly == Py_None || !may_wait() || !any_mount_is_slow())
        return PyObject_Vectorcall(me->function, args, flagged, names);
    size_t count = size_t(PyVectorcall_NARGS(flagged)) + (names ? size_t(PyTuple_GET_SIZE(names)) : 0);
    std::vector<PyObject*> all(count + 1);
    all[0] = me->function;
    for (size_t i = 0; i < count; i++) all[i + 1] = args[i];
    return PyObject_Vectorcall(me->slowly, all.data(), size_t(PyVectorcall_NARGS(flagged)) + 1, names);
}

PyObject* call_new(PyTypeObject* type, PyObject* args, PyObject* names) {
    PyObject *function, *slowly;
    if (names && PyDict_GET_SIZE(names)) return PyErr_Format(PyExc_TypeError, "FileCall() takes no keywords");
    if (!PyArg_ParseTuple(args, "OO:FileCall", &function, &slowly)) return nullptr;
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    call_of(self)->vectorcall = call;
    call_of(self)->function = Py_NewRef(function);
    call_of(self)->slowly = Py_NewRef(slowly);
    return self;
}

void call_deallocate(PyObject* self) {
    if (call_of(self)->weak_references) PyObject_ClearWeakRefs(self);
    Py_CLEAR(call_of(self)->function);
    Py_CLEAR(call_of(self)->slowly);
    Py_TYPE(self)->tp_free(self);
}

PyObject* call_attribute(PyObject* self, void* name) {
    return PyObject_GetAttrString(call_of(self)->function, static_cast<const char*>(name));
}

PyObject* call_wrapped(PyObject* self, void*) { return Py_NewRef(call_of(self)->function); }
PyObject* call_module(PyObject* self, void*) {
    PyObject* way = call_of(self)->slowly;
    return PyObject_GetAttrString(way == Py_None ? call_of(self)->function : way, "__module__");
}

PyObject* call_repr(PyObject* self) { return PyUnicode_FromFormat("<fiberrt: %R>", call_of(self)->function); }

PyObject* call_reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(call_of(self)->function, "__name__"); }

PyGetSetDef call_attributes[] = {
    {"__name__", call_attribute, nullptr, nullptr, const_cast<char*>("__name__")},
    {"__qualname__", call_attribute, nullptr, nullptr, const_cast<char*>("__qualname__")},
    {"__doc__", call_attribute, nullptr, nullptr, const_cast<char*>("__doc__")},
    {"__text_signature__", call_attribute, nullptr, nullptr, const_cast<char*>("__text_signature__")},
    {"__wrapped__", call_wrapped, nullptr, nullptr, nullptr},
    {"__module__", call_module, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef call_methods[] = {
    {"__reduce__", call_reduce, METH_NOARGS, "Pickle the function by its name."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

PyTypeObject FileCallType = [] {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "fiberrt._fiberrt.FileCall";
    type.tp_basicsize = sizeof(FileCall);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
    type.tp_vectorcall_offset = offsetof(FileCall, vectorcall);
    type.tp_weaklistoffset = offsetof(FileCall, weak_references);
    type.tp_call = PyVectorcall_Call;
    type.tp_new = call_new;
    type.tp_dealloc = call_deallocate;
    type.tp_repr = call_repr;
    type.tp_methods = call_methods;
    type.tp_getset = call_attributes;
    return type;
}();

PyMethodDef mount_functions[] = {
    {"is_slow", as_method(is_slow), METH_FASTCALL,
     "is_slow(path, dir_fd=None, /)\n--\n\nWhether a call with this path or descriptor may take long: a network or "
     "FUSE file system has it, or the path is not cached.\nFalse without such a file system. Never waits."},
    {"slow_file_systems", slow_file_systems, METH_O,
     "slow_file_systems(types, /)\n--\n\nCount these types of file systems, named as in /proc/mounts, as slow, too."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
