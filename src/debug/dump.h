// SPDX-License-Identifier: MIT OR Apache-2.0
// The dump: every cord and every fiber of the process. fiber_dump and fiber_dump_as call it.
#pragma once

namespace fiberrt {

// Writes the dump to a descriptor, in the form that flags ask for: FIBER_DUMP_FRAMES and so on. It calls no function of
// the program's allocator, switches no fibers and changes no state. caller: an address in the function that asks.
// 0; the error of write(2); -ENOMEM.
int dump(int fd, unsigned flags, const void* caller);

} // namespace fiberrt
