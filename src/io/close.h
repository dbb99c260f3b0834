// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_close.
#pragma once

namespace fiberrt {

struct Cord;

// Ends all use of fd, by fibers of any cord, then closes it. No cancel, interrupt or timeout ends this early.
int io_close(Cord& cord, int fd);

} // namespace fiberrt
