// SPDX-License-Identifier: MIT OR Apache-2.0
// The types of files, derived from those of io: FileIO, and the buffered and text files.
#pragma once

#include <Python.h>

namespace fiberrt_python {

extern PyTypeObject* FileType;
int files_add(PyObject* module);
int buffered_add(PyObject* module);

// Whether it is a FileIO of a pipe, a terminal or the like that closes its descriptor itself.
bool is_own_stream(PyObject* file);

// Whether opening the path would wait for another process or machine: it names a FIFO, or a slow file system has it.
bool open_waits(int folder, const char* path);

// A derived type's own members follow those of its base.
inline size_t rounded_size(PyTypeObject* base) { return (size_t(base->tp_basicsize) + 15) & ~size_t(15); }
// Makes a type with `extra` bytes of own members, and adds it to the module. Returns null with an exception set.
PyTypeObject* derive(PyObject* module, PyTypeObject* from, PyType_Slot* with, const char* name, size_t extra);

} // namespace fiberrt_python
