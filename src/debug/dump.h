// SPDX-License-Identifier: MIT OR Apache-2.0
// The dump: every cord and every fiber of the process, as text.
#pragma once

namespace fiberrt {

// Writes the dump to a descriptor. It neither allocates nor switches nor changes anything. 0, or the error of write(2).
int dump(int fd);

} // namespace fiberrt
