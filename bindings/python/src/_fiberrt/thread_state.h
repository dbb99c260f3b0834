// SPDX-License-Identifier: MIT OR Apache-2.0
// The members of a thread's PyThreadState that belong to the executed code, and so to one fiber: its frames, the
// exceptions that it handles, its context and its recursion depth. A switch exchanges only these members. The thread
// keeps one PyThreadState, which the GIL, PyGILState_Ensure and debuggers know.
//
// The members differ between minor versions of CPython, so each version has its own code here. All of them, 3.11 to
// 3.15, were run.
#pragma once

#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x03100000
#error "fiberrt does not know the internals of this version of CPython (it knows 3.11 to 3.15)"
#endif
#ifdef Py_GIL_DISABLED
#error "fiberrt needs CPython with its global lock: this is a free-threaded build"
#endif

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if PY_VERSION_HEX >= 0x030E0000
// Missing in the first patch releases of 3.14, which module.cc refuses.
extern "C" __attribute__((weak)) int PyUnstable_ThreadState_SetStackProtection(PyThreadState*, void*, size_t);
extern "C" __attribute__((weak)) void PyUnstable_ThreadState_ResetStackProtection(PyThreadState*);
#endif

namespace fiberrt_python {

// The most bytes of the C stack that one level of recursion, as the interpreter counts levels, takes in functions of
// the standard library that call Python again: sorted() with a key takes most. A debug build has larger frames.
#ifdef Py_DEBUG
constexpr size_t level_bytes = 6144;
#else
constexpr size_t level_bytes = 2816;
#endif
// Bytes reserved for code that does not count as recursion: the last level, the switch, a poll, signal handlers.
constexpr size_t reserve_bytes = 40 * 1024;

struct Execution {
#if PY_VERSION_HEX < 0x030D0000
    _PyCFrame* cframe;
    _PyCFrame root_cframe;
#else
    struct _PyInterpreterFrame* current_frame;
#endif
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
    int c_recursion_remaining;
#endif
#if PY_VERSION_HEX >= 0x030E0000
    void* stack_low; // null: the thread's own stack
    size_t stack_bytes;
    PyObject* current_executor;
#endif
    int levels;     // of recursion in use
    int levels_max; // for which its stack has room
    int levels_off; // while loaded: the interpreter's limit minus its own limit
    int headroom;
    int tracing;
    int trash_nesting;
    PyObject* trash_later;
    _PyErr_StackItem* exc_info;
    _PyErr_StackItem exc_state;
    PyObject* context;
    _PyStackChunk* datastack_chunk;
    PyObject** datastack_top;
    PyObject** datastack_limit;
    _PyStackChunk* root_chunk; // the first chunk: if it differs, other code (a greenlet) has exchanged the members
};

#if PY_VERSION_HEX < 0x030C0000
inline int& recursion_remaining(PyThreadState* state) { return state->recursion_remaining; }
inline int recursion_limit(PyThreadState* state) { return state->recursion_limit; }
#else
inline int& recursion_remaining(PyThreadState* state) { return state->py_recursion_remaining; }
inline int recursion_limit(PyThreadState* state) { return state->py_recursion_limit; }
#endif

inline bool error_is_set(PyThreadState* state) {
#if PY_VERSION_HEX < 0x030C0000
    return state->curexc_type;
#else
    return state->current_exception;
#endif
}

#if PY_VERSION_HEX >= 0x030E0000
// Tells the interpreter on which stack the thread runs; low null: the thread's own. The interpreter measures the space
// left, also when it frees an object: if it believes that the stack is exhausted, it defers this.
inline void tell_stack(PyThreadState* state, void* low, size_t bytes) {
    if (!low) return PyUnstable_ThreadState_ResetStackProtection(state);
    if (PyUnstable_ThreadState_SetStackProtection(state, low, bytes) < 0) PyErr_Clear();
}
#endif

// Sets the fiber's recursion limit: the interpreter's limit, which may change while fibers wait, or the room on its
// stack if that is less.
inline void levels_load(Execution& fiber, PyThreadState* state) {
    int limit = recursion_limit(state);
    fiber.levels_off = limit > fiber.levels_max ? limit - fiber.levels_max : 0;
    recursion_remaining(state) = limit - fiber.levels_off - fiber.levels;
}

// Saves the members of the tstate in `fiber`, from which the thread is about to switch.
inline void save(Execution& fiber, PyThreadState* state) {
    fiber.levels = recursion_limit(state) - recursion_remaining(state) - fiber.levels_off;
    fiber.headroom = state->recursion_headroom;
    fiber.tracing = state->tracing;
    fiber.exc_info = state->exc_info;
    fiber.exc_state = state->exc_state;
    fiber.context = state->context;
    fiber.datastack_chunk = state->datastack_chunk;
    fiber.datastack_top = state->datastack_top;
    fiber.datastack_limit = state->datastack_limit;
#if PY_VERSION_HEX < 0x030C0000
    fiber.cframe = state->cframe;
    fiber.trash_nesting = state->trash_delete_nesting;
    fiber.trash_later = state->trash_delete_later;
#elif PY_VERSION_HEX < 0x030D0000
    fiber.cframe = state->cframe;
    fiber.c_recursion_remaining = state->c_recursion_remaining;
    fiber.trash_nesting = state->trash.delete_nesting;
    fiber.trash_later = state->trash.delete_later;
#else
    fiber.current_frame = state->current_frame;
    fiber.trash_later = state->delete_later;
#if PY_VERSION_HEX < 0x030E0000
    fiber.c_recursion_remaining = state->c_recursion_remaining;
#else
    fiber.current_executor = state->current_executor;
#endif
#endif
}

inline void load(Execution& fiber, PyThreadState* state) {
    levels_load(fiber, state);
    state->recursion_headroom = fiber.headroom;
    state->exc_info = fiber.exc_info;
    state->exc_state = fiber.exc_state;
    state->context = fiber.context;
    state->context_ver++;
    state->datastack_chunk = fiber.datastack_chunk;
    state->datastack_top = fiber.datastack_top;
    state->datastack_limit = fiber.datastack_limit;
#if PY_VERSION_HEX < 0x030C0000
    state->cframe = fiber.cframe;
    state->trash_delete_nesting = fiber.trash_nesting;
    state->trash_delete_later = fiber.trash_later;
    // Tracing belongs to the thread: it may have begun or ended while the fiber was parked.
    state->cframe->use_tracing = !fiber.tracing && (state->c_tracefunc || state->c_profilefunc) ? 255 : 0;
#elif PY_VERSION_HEX < 0x030D0000
    state->cframe = fiber.cframe;
    state->c_recursion_remaining = fiber.c_recursion_remaining;
    state->trash.delete_nesting = fiber.trash_nesting;
    state->trash.delete_later = fiber.trash_later;
#else
    state->current_frame = fiber.current_frame;
    state->delete_later = fiber.trash_later;
#if PY_VERSION_HEX < 0x030E0000
    state->c_recursion_remaining = fiber.c_recursion_remaining;
#else
    state->current_executor = fiber.current_executor;
    tell_stack(state, fiber.stack_low, fiber.stack_bytes);
#endif
#endif
    state->tracing = fiber.tracing;
}

// Drops the context. A ContextVar caches the value that it found last without a reference, so the cache is invalidated:
// finalizers of the values must not get a freed one.
inline void drop_context(PyThreadState* state) {
    PyObject* context = state->context;
    state->context = nullptr;
    state->context_ver++;
    Py_XDECREF(context);
}

// Adopts the execution on the thread's own stack, on which Python already runs.
inline void adopt(Execution& fiber, PyThreadState* state) {
    memset(&fiber, 0, sizeof fiber);
    fiber.levels_max = INT_MAX;
    _PyStackChunk* chunk = state->datastack_chunk;
    while (chunk && chunk->previous) chunk = chunk->previous;
    fiber.root_chunk = chunk;
}

// For a thread that will end on a fiber's stack: from here on its frames are in memory that the interpreter may free.
// No frame may be in use. Returns false if there is no memory.
inline bool adopt_frames(Execution& fiber, PyThreadState* state) {
    constexpr size_t bytes = 16 * 1024; // as in the interpreter
    PyObjectArenaAllocator arenas;
    PyObject_GetArenaAllocator(&arenas);
    auto* root = static_cast<_PyStackChunk*>(arenas.alloc(arenas.ctx, bytes));
    if (!root) return false;
    root->previous = nullptr;
    root->size = bytes;
    root->top = 0;
    fiber.root_chunk = state->datastack_chunk = root;
    state->datastack_top = &root->data[1];
    state->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(root) + bytes);
    return true;
}

// Prepares a new execution. chunk is memory for the first frames, which the interpreter never frees; context is taken
// over; stack is the fiber's stack, or null for the thread's own.
inline void prepare(Execution& fiber, void* chunk, size_t chunk_bytes, void* stack, size_t stack_bytes,
                    PyObject* context, PyThreadState* state) {
    memset(&fiber, 0, sizeof fiber);
    fiber.levels_max = INT_MAX;
    fiber.exc_info = &state->exc_state;
    fiber.context = context;
    if (chunk) {
        auto* root = static_cast<_PyStackChunk*>(chunk);
        root->previous = nullptr;
        root->size = chunk_bytes;
        root->top = 0;
        fiber.datastack_chunk = fiber.root_chunk = root;
        fiber.datastack_top = &root->data[1]; // the interpreter would free a chunk whose top is at 0
        fiber.datastack_limit = reinterpret_cast<PyObject**>(static_cast<char*>(chunk) + chunk_bytes);
    }
    int levels = stack ? int((stack_bytes - reserve_bytes - chunk_bytes) / level_bytes) : INT_MAX;
#if PY_VERSION_HEX < 0x030C0000
    fiber.levels_max = levels;
    fiber.root_cframe.previous = &state->root_cframe;
    fiber.cframe = &fiber.root_cframe;
#else
#if PY_VERSION_HEX < 0x030D0000
    fiber.root_cframe.previous = &state->root_cframe;
    fiber.cframe = &fiber.root_cframe;
    constexpr int most = C_RECURSION_LIMIT;
#elif PY_VERSION_HEX < 0x030E0000
    constexpr int most = Py_C_RECURSION_LIMIT;
#endif
#if PY_VERSION_HEX < 0x030E0000
    fiber.c_recursion_remaining = levels < most ? levels : most;
#else
    (void)levels;
    fiber.stack_low = stack;
    fiber.stack_bytes = stack_bytes;
#endif
#endif
}

// The idle thread polls, and runs the last finalizers, on the stack of a fiber that has ended.
inline void idle_on_stack_of(Execution& idle, const Execution& fiber) {
#if PY_VERSION_HEX < 0x030C0000
    idle.levels_max = fiber.levels_max;
#elif PY_VERSION_HEX < 0x030E0000
    idle.c_recursion_remaining = fiber.c_recursion_remaining;
#else
    idle.stack_low = fiber.stack_low;
    idle.stack_bytes = fiber.stack_bytes;
#endif
}

} // namespace fiberrt_python
