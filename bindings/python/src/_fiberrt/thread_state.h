// SPDX-License-Identifier: MIT OR Apache-2.0
// What of a thread's PyThreadState belongs to what is being executed, and so to one fiber: its frames, the exceptions
// that it handles, its context, how deep it has recursed. At a switch these members are exchanged, and nothing else:
// the thread keeps one PyThreadState, which is what the GIL, PyGILState_Ensure and debuggers know.
//
// The members differ from one minor version of CPython to the next, so each is written down here. All of
// them, 3.11 to 3.15, were run.
#pragma once

#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x03100000
#error "fiberrt does not know how this version of CPython keeps what it executes (it knows 3.11 to 3.15)"
#endif
#ifdef Py_GIL_DISABLED
#error "fiberrt needs CPython with its global lock: this is a free-threaded build"
#endif

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if PY_VERSION_HEX >= 0x030E0000
// In 3.14 since some patch release: module.cc refuses those before.
extern "C" __attribute__((weak)) int PyUnstable_ThreadState_SetStackProtection(PyThreadState*, void*, size_t);
extern "C" __attribute__((weak)) void PyUnstable_ThreadState_ResetStackProtection(PyThreadState*);
#endif

namespace fiberrt_python {

// Bytes of the C stack that one level of recursion takes at most, as the interpreter counts levels, among the functions
// of the standard library that call Python again: sorted() with a key is the worst. A debug build keeps larger frames.
#ifdef Py_DEBUG
constexpr size_t level_bytes = 6144;
#else
constexpr size_t level_bytes = 2816;
#endif
// Bytes that are left for what does not count: the last level, the switch, a poll, signal handlers of the program.
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
    int levels;     // of recursion that are in use
    int levels_max; // that its stack has room for
    int levels_off; // while loaded: by how much its limit lies below that of the interpreter
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
    _PyStackChunk* root_chunk; // the first one: another one means that somebody else has exchanged these members
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
// Where the stack is that the thread runs on; low null: its own. The interpreter measures how much of it is left, also
// when it frees an object: to one that it believes beyond the end it comes back later.
inline void tell_stack(PyThreadState* state, void* low, size_t bytes) {
    if (!low) return PyUnstable_ThreadState_ResetStackProtection(state);
    if (PyUnstable_ThreadState_SetStackProtection(state, low, bytes) < 0) PyErr_Clear();
}
#endif

// The limit is that of the interpreter, which may be set anew while fibers wait, or what the stack has room for.
inline void levels_load(Execution& fiber, PyThreadState* state) {
    int limit = recursion_limit(state);
    fiber.levels_off = limit > fiber.levels_max ? limit - fiber.levels_max : 0;
    recursion_remaining(state) = limit - fiber.levels_off - fiber.levels;
}

// What the tstate has becomes that of `fiber`, which is about to be left.
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
    // Who traces is the thread's: it may have begun or ended while the fiber was parked.
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

// Drops the context. A ContextVar remembers the value that it has found last, without a reference to it: finalizers of the
// values must not get that.
inline void drop_context(PyThreadState* state) {
    PyObject* context = state->context;
    state->context = nullptr;
    state->context_ver++;
    Py_XDECREF(context);
}

// The thread's own stack, on which Python runs already.
inline void adopt(Execution& fiber, PyThreadState* state) {
    memset(&fiber, 0, sizeof fiber);
    fiber.levels_max = INT_MAX;
    _PyStackChunk* chunk = state->datastack_chunk;
    while (chunk && chunk->previous) chunk = chunk->previous;
    fiber.root_chunk = chunk;
}

// A thread that is to end on a fiber's stack: its frames are from here on in memory that the interpreter may free.
// None may be in use. false: there is no memory.
inline bool adopt_frames(Execution& fiber, PyThreadState* state) {
    constexpr size_t bytes = 16 * 1024; // as the interpreter has them
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

// A fresh one. chunk: memory for the first frames, which the interpreter never frees; context: taken over;
// stack: what the fiber runs on, null if it is none of ours.
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
        fiber.datastack_top = &root->data[1]; // one that begins at 0 would be freed when it is empty
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

// Polls of the idle thread are made on the stack of a fiber that has ended, and the last finalizers run there.
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
