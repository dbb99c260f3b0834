// SPDX-License-Identifier: MIT OR Apache-2.0
// Names of fibers in the C library, for its traces and times, which know no Python functions.
#pragma once

#include <Python.h>

namespace fiberrt_python {

struct FiberObject;

// Whether new fibers are named after their functions. Naming takes time, so fibers are named only while a trace or
// accounting is on.
extern bool names_functions;

// Turns naming on, and names the calling thread's fibers.
void names_begin();
// Turns naming off if neither a trace nor accounting is on.
void names_end();
// Turns naming on if the environment turns a trace or accounting on.
void names_begin_by_environment();

// Names a fiber of the calling thread after its function, unless the program has named it.
void name_after_function(FiberObject* fiber);

// Copies a text that ends with a null. If it has no room, copies "..." and the end of it, which says more of a
// qualified name or a path than the beginning. Does not begin within a UTF-8 character.
void put_end(char* to, size_t size, const char* text);

} // namespace fiberrt_python
