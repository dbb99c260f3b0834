// SPDX-License-Identifier: MIT OR Apache-2.0
// The buffered and text files of io, for several fibers: fibers that use a file at the same time take turns.
//
// The standard library's buffered files have a lock of the thread, which refuses a second fiber of the same thread
// ("reentrant call"), and makes a fiber of another thread block its thread. The types of this file hold locks of fibers
// around the standard library's methods. A call from within the fiber's own call, as by a signal handler, is still
// refused. Where reads and writes have nothing in common, a reader and a writer do not wait for each other.
#include "files.h"
#include "io.h"
#include "sync.h"

#include <errno.h>
#include <string_view>
#include <utility>

namespace fiberrt_python {

namespace {

struct Guard {
    fiber_sem_t sem;
    uint64_t owner; // own_number() of the fiber or thread that is inside; 0: none
};

// Follows the standard library's struct.
struct Guards {
    Guard of[2]; // for writing or, if a type has one guard, for all calls; for reading
};

constexpr unsigned writing = 1, reading = 2, both = 3, only = 1;

struct Guarded {
    const char* name;
    unsigned guards;
    bool ends; // also a cancelled fiber may end the file
};

struct Kind {
    const char* name; // in _io
    const char* own_name;
    const char* doc;
    Guarded methods[16];
};

constexpr Kind kinds[] = {
    {"BufferedReader",
     "fiberrt._fiberrt.BufferedReader",
     "io.BufferedReader for several fibers.",
     {{"read", only, false},
      {"read1", only, false},
      {"readinto", only, false},
      {"readinto1", only, false},
      {"peek", only, false},
      {"readline", only, false},
      {"seek", only, false},
      {"truncate", only, false},
      {"detach", only, true},
      {"close", only, true}}},
    {"BufferedWriter",
     "fiberrt._fiberrt.BufferedWriter",
     "io.BufferedWriter for several fibers.",
     {{"write", only, false},
      {"flush", only, false},
      {"seek", only, false},
      {"truncate", only, false},
      {"detach", only, true},
      {"close", only, true}}},
    {"BufferedRandom",
     "fiberrt._fiberrt.BufferedRandom",
     "io.BufferedRandom for several fibers.",
     {{"read", only, false},
      {"read1", only, false},
      {"readinto", only, false},
      {"readinto1", only, false},
      {"peek", only, false},
      {"readline", only, false},
      {"write", only, false},
      {"flush", only, false},
      {"seek", only, false},
      {"truncate", only, false},
      {"detach", only, true},
      {"close", only, true}}},
    {"BufferedRWPair",
     "fiberrt._fiberrt.BufferedRWPair",
     "io.BufferedRWPair for several fibers: one may read while another writes.",
     {{"read", reading, false},
      {"read1", reading, false},
      {"readinto", reading, false},
      {"readinto1", reading, false},
      {"peek", reading, false},
      {"readline", reading, false},
      {"write", writing, false},
      {"flush", writing, false},
      {"close", both, true}}},
    {"TextIOWrapper",
     "fiberrt._fiberrt.TextIOWrapper",
     "io.TextIOWrapper for several fibers: one may read while another writes.",
     {{"read", reading, false},
      {"readline", reading, false},
      {"write", writing, false},
      {"flush", writing, false},
      {"seek", both, false},
      {"tell", both, false},
      {"truncate", both, false},
      {"reconfigure", both, false},
      {"detach", both, true},
      {"close", both, true}}},
};

constexpr size_t kind_count = sizeof kinds / sizeof *kinds;
constexpr size_t most_methods = sizeof kinds->methods / sizeof *kinds->methods;
PyTypeObject* bases[kind_count];
PyObject* originals[kind_count][most_methods];
PyMethodDef own_methods[kind_count][most_methods + 1];

Guards* guards_of(PyObject* self, size_t kind) {
    return reinterpret_cast<Guards*>(reinterpret_cast<char*>(self) + rounded_size(bases[kind]));
}

// Closes the descriptor of a pipe, a terminal or the like: calls of other fibers on it end with EBADF. Returns false with
// an exception set.
bool close_stream(PyObject* file) {
    PyObject* raw = Py_NewRef(file);
    for (const char* part : {"buffer", "raw"}) { // a text file has a buffered one, which has a raw one
        PyObject* inner = PyObject_GetAttrString(raw, part);
        if (inner) Py_SETREF(raw, inner);
        PyErr_Clear();
    }
    PyObject* closed = is_own_stream(raw) ? PyObject_CallMethod(raw, "close", nullptr) : Py_NewRef(Py_None);
    Py_DECREF(raw);
    Py_XDECREF(closed);
    return closed;
}

// Waits for the calls of other fibers in order to close the file. A cancel or an exception does not keep the caller from
// closing it, but the calls on a stream, which might wait for ever, are then ended.
bool take_to_close(PyObject* file, fiber_sem_t* sem) {
    World* here = world();
    if (!here) return false;
    int result;
    {
        WaitsFor reason("file");
        bool interrupted = false;
        while ((result = fiber_sem_wait(sem, 1)) == -EINTR) {
            interrupted = true;
            if (has_thrown()) break;
        }
        if (interrupted) fiber_interrupt(here->current->handle, nullptr); // the next wait raises it
    }
    if (result == 0) return true;
    if (result == -ECANCELED || result == -ETIMEDOUT || result == -EINTR)
        return close_stream(file) && take_in_any_case(sem);
    raise_errno(result);
    return false;
}

enum class Taking { unless_cancelled, in_any_case, to_close };

// Holds guards of a file during a call.
class Inside {
public:
    Inside(PyObject* file, Guards* guards, unsigned which, Taking taking) : guards_(guards) {
        for (unsigned i = 0; i < 2 && entered_; i++)
            if (which & 1u << i) entered_ = enter(file, i, taking);
    }
    ~Inside() {
        for (unsigned i = 0; i < 2; i++) {
            if (!(held_ & 1u << i)) continue;
            guards_->of[i].owner = 0;
            fiber_sem_post(&guards_->of[i].sem, 1);
        }
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    bool entered() const { return entered_; } // if not, an exception is set

private:
    bool enter(PyObject* file, unsigned i, Taking taking) {
        Guard& guard = guards_->of[i];
        uint64_t me = own_number();
        if (guard.owner == me) return true;
        if (fiber_sem_trywait(&guard.sem, 1) != 0) {
            if (this_world && !may_wait()) {
                PyErr_Format(PyExc_RuntimeError, "another fiber is inside %R, and the caller cannot wait for it", file);
                return false;
            }
            bool got = taking == Taking::to_close      ? take_to_close(file, &guard.sem)
                       : taking == Taking::in_any_case ? take_in_any_case(&guard.sem)
                                                       : sem_take_slowly(&guard.sem, Timeout(), "file") == Got::yes;
            if (!got) return false;
        }
        guard.owner = me;
        held_ |= 1u << i;
        return true;
    }

    Guards* guards_;
    unsigned held_ = 0;
    bool entered_ = true;
};

template <size_t kind, size_t method>
PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    constexpr const Guarded& guarded = kinds[kind].methods[method];
    constexpr size_t most = 8;
    PyObject* all[most] = {self};
    size_t total = size_t(count) + (names ? size_t(PyTuple_GET_SIZE(names)) : 0);
    if (total >= most) return PyErr_Format(PyExc_TypeError, "%s() takes fewer arguments", guarded.name);
    for (size_t i = 0; i < total; i++) all[i + 1] = args[i];
    constexpr Taking taking = !guarded.ends                               ? Taking::unless_cancelled
                              : std::string_view(guarded.name) == "close" ? Taking::to_close
                                                                          : Taking::in_any_case;
    Inside inside(self, guards_of(self, kind), guarded.guards, taking);
    if (!inside.entered()) return nullptr;
    return PyObject_Vectorcall(originals[kind][method], all, size_t(count) + 1, names);
}

template <size_t kind>
PyObject* make(PyTypeObject* type, PyObject* args, PyObject* names) {
    PyObject* self = PyType_GenericNew(type, args, names);
    if (!self) return nullptr;
    for (Guard& guard : guards_of(self, kind)->of) {
        fiber_sem_init(&guard.sem, 1);
        guard.owner = 0;
    }
    return self;
}

template <size_t kind, size_t method>
bool add_method() {
    constexpr const char* name = kinds[kind].methods[method].name;
    if constexpr (name != nullptr) {
        PyObject* original = PyObject_GetAttrString(reinterpret_cast<PyObject*>(bases[kind]), name);
        if (!original) return false;
        PyObject* doc = PyObject_GetAttrString(original, "__doc__");
        PyObject* signature = PyObject_GetAttrString(original, "__text_signature__");
        const char* text = nullptr;
        if (doc && signature && signature != Py_None) {
            PyObject* rest = doc == Py_None ? PyUnicode_FromString("") : Py_NewRef(doc);
            PyObject* whole = rest ? PyUnicode_FromFormat("%s%U\n--\n\n%U", name, signature, rest) : nullptr;
            text = whole ? PyUnicode_AsUTF8(whole) : nullptr; // kept as long as the type
            Py_XDECREF(rest);
        }
        Py_XDECREF(doc);
        Py_XDECREF(signature);
        PyErr_Clear();
        originals[kind][method] = original;
        own_methods[kind][method] = {name,
                                     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call<kind, method>)),
                                     METH_FASTCALL | METH_KEYWORDS, text};
    }
    return true;
}

template <size_t kind, size_t... methods>
bool add_methods(std::index_sequence<methods...>) {
    return (add_method<kind, methods>() && ...);
}

template <size_t kind>
bool add(PyObject* module, PyObject* io) {
    bases[kind] = reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(io, kinds[kind].name));
    if (!bases[kind] || !add_methods<kind>(std::make_index_sequence<most_methods>())) return false;
    PyType_Slot slots[] = {
        {Py_tp_new, reinterpret_cast<void*>(make<kind>)},
        {Py_tp_methods, own_methods[kind]},
        {Py_tp_doc, const_cast<char*>(kinds[kind].doc)},
        {0, nullptr},
    };
    return derive(module, bases[kind], slots, kinds[kind].own_name, sizeof(Guards));
}

template <size_t... all>
bool add_all(PyObject* module, PyObject* io, std::index_sequence<all...>) {
    return (add<all>(module, io) && ...);
}

} // namespace

int buffered_add(PyObject* module) {
    PyObject* io = PyImport_ImportModule("_io");
    bool added = io && add_all(module, io, std::make_index_sequence<kind_count>());
    Py_XDECREF(io);
    return added ? 0 : -1;
}

} // namespace fiberrt_python
