// SPDX-License-Identifier: MIT OR Apache-2.0
// The layout of the interpreter's frames, from CPython's internal headers. It differs between minor versions, and
// remains the same within one.
#pragma once

#include <Python.h>

#define Py_BUILD_CORE 1
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe_structs.h>
#else
#include <internal/pycore_frame.h>
#endif
#undef Py_BUILD_CORE

#include <stddef.h>
#include <stdint.h>

namespace fiberrt_python {

using InterpreterFrame = struct _PyInterpreterFrame;

// Without the locals, which may lie in memory that a short frame does not have.
constexpr size_t frame_bytes = offsetof(InterpreterFrame, localsplus);

inline const PyCodeObject* code_of(const InterpreterFrame& frame) {
#if PY_VERSION_HEX >= 0x030E0000
    constexpr uintptr_t tags = 3; // of a _PyStackRef
    return reinterpret_cast<const PyCodeObject*>(frame.f_executable.bits & ~tags);
#elif PY_VERSION_HEX >= 0x030D0000
    return reinterpret_cast<const PyCodeObject*>(frame.f_executable);
#else
    return frame.f_code;
#endif
}

// The address of the instruction that the frame executes.
inline uintptr_t instruction_of(const InterpreterFrame& frame) {
#if PY_VERSION_HEX >= 0x030D0000
    return reinterpret_cast<uintptr_t>(frame.instr_ptr);
#else
    return reinterpret_cast<uintptr_t>(frame.prev_instr);
#endif
}

// Whether the frame is one of a Python function. The others stand for calls of the interpreter from C.
inline bool has_code(const InterpreterFrame& frame) { return frame.owner <= FRAME_OWNED_BY_FRAME_OBJECT; }

// Whether the frame has begun to execute the function: traceback and sys._getframe leave out a frame that has not.
inline bool is_complete(const InterpreterFrame& frame, const PyCodeObject* at, const PyCodeObject& code) {
    uintptr_t begin = reinterpret_cast<uintptr_t>(at) + offsetof(PyCodeObject, co_code_adaptive);
    return frame.owner == FRAME_OWNED_BY_GENERATOR ||
           instruction_of(frame) >= begin + size_t(code._co_firsttraceable) * sizeof(_Py_CODEUNIT);
}

} // namespace fiberrt_python
