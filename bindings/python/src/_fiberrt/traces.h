// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces of the C library, with the places in Python code where fibers wait.
#pragma once

namespace fiberrt_python {

extern bool traces_places; // whether waits are to be in the trace with their places

// Begins a slice in the trace, named after the calling fiber's innermost Python frame.
void trace_place_begin();
void trace_place_end();

} // namespace fiberrt_python
