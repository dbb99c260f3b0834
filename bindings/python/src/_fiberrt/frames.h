// SPDX-License-Identifier: MIT OR Apache-2.0
// The Python frames of parked fibers, for the dumps of the C library.
#pragma once

namespace fiberrt_python {

// Lets the library read the Python frames of fibers: fiber_frames_reader_set. Returns 0, or -1 with an exception set.
int frames_add();

} // namespace fiberrt_python
