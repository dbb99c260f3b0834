// SPDX-License-Identifier: MIT OR Apache-2.0
// Adopted libraries: C code that has released the GIL and then blocks, such as libpq in psycopg2, waits as a fiber. The
// calls themselves are in src/posix; this file prepares the thread's PyThreadState for them.
//
// Such code has called PyEval_SaveThread, so another thread may run Python. A switch exchanges members of the
// PyThreadState and runs the Python code of other fibers. So before a wait, the thread takes the GIL again with that very
// PyThreadState, and after the wait it releases the GIL. The code's own PyEval_RestoreThread, later, finds the state as
// the code left it: the hooks in world.cc have loaded the fiber's members by then.
//
// While another thread computes, taking the GIL takes 5 ms, at each wait. So the modules that are known to call nothing
// that takes long, except waits, do not release the GIL in a fiber: their calls of PyEval_SaveThread and the like are
// replaced, too. While the fiber waits, the thread releases the GIL when it has nothing else to do, as always.
#include "functions.h"
#include "waiting.h"

#include "posix/adopt.h"
#include "posix/replacements.h"
#include "posix/wait.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

namespace posix = fiberrt::posix;

namespace fiberrt_python {

namespace {

bool reports; // of calls that block while their caller holds the GIL

PyThreadState* holder_of_gil() {
#if PY_VERSION_HEX < 0x030D0000
    return _PyThreadState_UncheckedGet();
#else
    return PyThreadState_GetUnchecked();
#endif
}

// The code of another interpreter may run on this thread, in a frame that a switch would not save. Interpreters are
// added at the head of their list.
bool is_only_interpreter() { return PyInterpreterState_Head() == PyInterpreterState_Main(); }

// The frames of a call of an adopted library: the function of src/posix that the library called, and the address in the
// library that called it.
struct Caller {
    const void* own_object;
    const void* function;
    void* address;
};

_Unwind_Reason_Code find_caller(_Unwind_Context* context, void* data) {
    auto& caller = *static_cast<Caller*>(data);
    auto* address = reinterpret_cast<char*>(_Unwind_GetIP(context)) - 1; // in the calling instruction
    Dl_info object;
    if (!dladdr(address, &object)) return _URC_END_OF_STACK;
    if (object.dli_fbase == caller.own_object) {
        caller.function = _Unwind_FindEnclosingFunction(address);
        return _URC_NO_REASON;
    }
    caller.address = address;
    return _URC_END_OF_STACK;
}

// The caller holds the GIL, and has no error set or keeps it.
int line_of_python(const char** file, PyObject** code) {
    PyFrameObject* frame = PyEval_GetFrame(); // borrowed
    if (!frame) return 0;
    *code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
    *file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(*code)->co_filename);
    return PyFrame_GetLineNumber(frame);
}

// Reports, on stderr, the call that is about to block. The GIL is held, so a thread that watches could not report it.
void report_held() {
    Dl_info own, library;
    if (!dladdr(reinterpret_cast<void*>(&report_held), &own)) return;
    Caller caller = {own.dli_fbase, nullptr, nullptr};
    _Unwind_Backtrace(find_caller, &caller);
    const char* name = posix::name_of(caller.function);
    bool found = caller.address && dladdr(caller.address, &library);
    PyObject *type, *value, *traceback, *code = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    const char* file = nullptr;
    int line = line_of_python(&file, &code);
    fprintf(stderr, "fiberrt: %s() blocks the thread, because its caller holds the GIL: %s in %s",
            name ? name : "a call", found && library.dli_sname ? library.dli_sname : "a function",
            found ? library.dli_fname : "a library");
    fprintf(stderr, file ? ", called at %s:%d\n" : "\n", file, line);
    fflush(stderr);
    Py_XDECREF(code);
    PyErr_Restore(type, value, traceback);
}

// Whether the thread can wait as a fiber now. The GIL need not be held: only this thread changes the values.
bool can_wait(World* world) {
    if (!world || world->released || world->loaded == &world->idle || finalizing()) return false;
    if (PyGILState_GetThisThreadState() != world->state || !is_only_interpreter()) return false;
    return in_own_frames(world); // not in a greenlet
}

// A bit in the state that enter() passes to leave(), next to the address of an exception.
constexpr uintptr_t gil_taken = 1;

bool enter(void** state) {
    World* world = this_world;
    if (!can_wait(world)) return false;
    FiberObject* me = world->current;
    bool held = holder_of_gil() == world->state;
    if (held && !me->gil_kept) {
        // The code expects that no other Python code runs meanwhile.
        if (reports) report_held();
        return false;
    }
    if (!held) sleep_at_exit([=] { PyEval_RestoreThread(world->state); });
    // A finalizer may close a connection while an exception is raised: the exception is this fiber's.
    PyObject* exception = error_is_set(world->state) ? exception_take() : nullptr;
    me->waits_for = "native code";
    *state = reinterpret_cast<void*>(uintptr_t(exception) | (held ? 0 : gil_taken));
    return true;
}

// A signal's handler has raised an exception for the main flow. Called by the interpreter, soon after the C code has
// returned to it.
int raise_in_main_flow(void*) {
    World* here = this_world;
    if (!here || !here->for_main || !here->current->main_flow || here->loaded == &here->idle) return 0;
    return raise_thrown() ? -1 : 0;
}

void leave(void* state) {
    World* world = this_world;
    world->current->waits_for = nullptr;
    if (world->for_main && world->current->main_flow) Py_AddPendingCall(raise_in_main_flow, nullptr);
    auto* exception = reinterpret_cast<PyObject*>(uintptr_t(state) & ~gil_taken);
    if (exception) exception_set(exception);
    if (uintptr_t(state) & gil_taken) PyEval_SaveThread();
}

bool is_due() {
    World* world = this_world;
    if (!world || !world->live_count || !turn_is_long(world)) return false;
    world->turns++;
    return true;
}

// The functions that replace those of the interpreter. Each of the first four releases the GIL or takes it; a fiber that
// has kept it counts instead.

bool keep_gil() {
    World* world = this_world;
    if (!can_wait(world) || !fiber_here() || holder_of_gil() != world->state) return false;
    world->current->gil_kept++;
    return true;
}

bool gil_was_kept(PyThreadState* state) {
    World* world = this_world;
    if (!world || state != world->state || !world->current->gil_kept) return false;
    world->current->gil_kept--;
    return true;
}

PyThreadState* save_thread() { return keep_gil() ? this_world->state : PyEval_SaveThread(); }

void restore_thread(PyThreadState* state) {
    if (!gil_was_kept(state)) PyEval_RestoreThread(state);
}

void release_thread(PyThreadState* state) {
    if (!keep_gil()) PyEval_ReleaseThread(state);
}

void acquire_thread(PyThreadState* state) {
    if (!gil_was_kept(state)) PyEval_AcquireThread(state);
}

// Code between these two holds the GIL, and knows it: its blocking calls block. The count is kept in the result, above
// the interpreter's own values.
constexpr int kept_from = 2;

PyGILState_STATE ensure() {
    World* world = this_world;
    int kept = world ? world->current->gil_kept : 0;
    if (!kept || holder_of_gil() != world->state) return PyGILState_Ensure();
    (void)PyGILState_Ensure(); // counts
    world->current->gil_kept = 0;
    return static_cast<PyGILState_STATE>(kept_from + kept);
}

void release_ensured(PyGILState_STATE state) {
    if (int(state) < kept_from) return PyGILState_Release(state);
    PyGILState_Release(PyGILState_LOCKED);
    this_world->current->gil_kept = int(state) - kept_from;
}

template <class Function>
posix::Replacement begins(const char* name, Function* function) {
    return {name, reinterpret_cast<void*>(function), false};
}
template <class Function>
posix::Replacement ends(const char* name, Function* function) {
    return {name, reinterpret_cast<void*>(function), true};
}

const posix::Replacement replacements[] = {
    begins("PyEval_SaveThread", save_thread),
    ends("PyEval_RestoreThread", restore_thread),
    begins("PyEval_ReleaseThread", release_thread),
    ends("PyEval_AcquireThread", acquire_thread),
    begins("PyGILState_Ensure", ensure),
    ends("PyGILState_Release", release_ensured),
};
constexpr int replacement_count = sizeof replacements / sizeof *replacements;
static_assert(replacement_count <= posix::Runtime::replacements_most);

const posix::Runtime python = {enter, leave, is_due, replacements, replacement_count};

PyObject* native_adopt(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!takes("native_adopt", count, 1, 2)) return nullptr;
    const char* path = PyUnicode_AsUTF8(args[0]);
    int keeps_gil = count > 1 ? PyObject_IsTrue(args[1]) : 0;
    if (!path || keeps_gil < 0) return nullptr;
    posix::runtime.store(&python, std::memory_order_release);
    int result = posix::adopt(path, keeps_gil ? posix::with_those_of_runtime : 0);
    return result < 0 ? raise_errno(result) : PyLong_FromLong(result);
}

PyObject* native_release(PyObject*, PyObject* path) {
    const char* name = PyUnicode_AsUTF8(path);
    if (!name) return nullptr;
    int result = posix::release(name);
    return result < 0 ? raise_errno(result) : PyLong_FromLong(result);
}

int append(PyObject* list, PyObject* item) { // takes the reference
    int error = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return error;
}

PyObject* decoded(const char* text) { return PyUnicode_DecodeFSDefault(text); }

PyObject* native_adopted(PyObject*, PyObject*) {
    PyObject* list = PyList_New(0);
    if (!list) return nullptr;
    auto visit = [](const char* path, const char* function, void* arg) {
        if (!strncmp(function, "Py", 2)) return 0; // the interpreter's
        return append(static_cast<PyObject*>(arg), Py_BuildValue("(Ns)", decoded(path), function));
    };
    if (posix::each(visit, list) < 0) Py_CLEAR(list);
    return list;
}

// The name of a loaded library, and the names of the libraries that it needs.
struct Needs {
    explicit Needs(const dl_phdr_info& object) {
        for (int i = 0; i < object.dlpi_phnum; i++)
            if (object.dlpi_phdr[i].p_type == PT_DYNAMIC)
                first = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
        for (const ElfW(Dyn)* entry = first; entry && entry->d_tag != DT_NULL; entry++) {
            if (entry->d_tag != DT_STRTAB) continue;
            ElfW(Addr) at = entry->d_un.d_ptr; // an offset if the section is read-only
            names = reinterpret_cast<const char*>(at < object.dlpi_addr ? object.dlpi_addr + at : at);
        }
    }
    // A list of the names of these entries; null if there is no memory.
    PyObject* list(ElfW(Sxword) tag) const {
        PyObject* result = PyList_New(0);
        if (!result || !names) return result;
        for (const ElfW(Dyn)* entry = first; entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == tag && append(result, decoded(names + entry->d_un.d_val)) < 0) Py_CLEAR(result);
        return result;
    }
    const ElfW(Dyn) * first = nullptr;
    const char* names = nullptr;
};

int append_object(dl_phdr_info* object, size_t, void* list) {
    if (!object->dlpi_name || !strchr(object->dlpi_name, '/')) return 0; // the program, and the kernel's
    Needs needs(*object);
    return append(static_cast<PyObject*>(list),
                  Py_BuildValue("(NNN)", decoded(object->dlpi_name), needs.list(DT_SONAME), needs.list(DT_NEEDED)));
}

PyObject* native_loaded(PyObject*, PyObject*) {
    PyObject* list = PyList_New(0);
    if (!list) return nullptr;
    NoCollection while_locked; // by the dynamic linker: a finalizer might load a library
    if (dl_iterate_phdr(append_object, list) < 0) Py_CLEAR(list);
    return list;
}

PyObject* native_report(PyObject*, PyObject* on) {
    int value = PyObject_IsTrue(on);
    if (value < 0) return nullptr;
    reports = value;
    Py_RETURN_NONE;
}

} // namespace

PyMethodDef native_functions[] = {
    {"native_adopt", as_method(native_adopt), METH_FASTCALL,
     "native_adopt(path, keeps_gil=False, /)\n--\n\nLet the blocking calls of a loaded library wait as fibers. Return "
     "their number. keeps_gil: for an extension module whose code does not release the GIL in fibers."},
    {"native_release", native_release, METH_O,
     "native_release(path, /)\n--\n\nUndo native_adopt(). Return the number of calls restored."},
    {"native_adopted", native_adopted, METH_NOARGS,
     "native_adopted()\n--\n\nReturn a list with a path and a function's name for each call that waits as a fiber."},
    {"native_loaded", native_loaded, METH_NOARGS,
     "native_loaded()\n--\n\nReturn the loaded libraries: for each its path, a list with its SONAME or an empty one, "
     "and "
     "a list of the names of the libraries that it needs."},
    {"native_report", native_report, METH_O,
     "native_report(on, /)\n--\n\nReport calls of adopted libraries that block because the GIL is held."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
