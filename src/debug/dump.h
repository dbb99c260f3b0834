// SPDX-License-Identifier: MIT OR Apache-2.0
// The dump: every cord and every fiber of the process, as text. fiber_dump calls it.
#pragma once

namespace fiberrt {

// Writes the dump to a descriptor. It does not allocate memory, switch fibers, or change any state. 0, or the error of
// write(2).
int dump(int fd);

} // namespace fiberrt
