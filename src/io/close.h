// SPDX-License-Identifier: MIT OR Apache-2.0
// The part of fiber_close that a cord runs, for fibers with and without a stack.
#pragma once

namespace fiberrt {

struct Cord;

// Ends every use of fd by fibers of any cord, then closes it. No cancel, interrupt or timeout ends this early.
int io_close(Cord& cord, int fd);

} // namespace fiberrt
