// SPDX-License-Identifier: MIT OR Apache-2.0
// Names of fibers in the C library, for its traces and times, which know no Python functions.
#pragma once

#include <Python.h>

namespace fiberrt_python {

struct FiberObject;

// Whether new fibers are named after their functions. Naming takes time, so it is off until a trace or accounting is on.
extern bool names_functions;

// Turns it on, and names the calling thread's fibers.
void names_begin();
// Turns it on if the environment has turned a trace or accounting on.
void names_begin_by_environment();

// Names a fiber of the calling thread after its function, unless the program has named it.
void name_after_function(FiberObject* fiber);

} // namespace fiberrt_python
