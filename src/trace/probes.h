// SPDX-License-Identifier: MIT OR Apache-2.0
// The library's static probes. They need no call: a tool turns them on.
#pragma once

namespace fiberrt::trace {

// For fork: between lock and unlock, the probes are not turned on or off.
void probes_lock();
void probes_unlock();

} // namespace fiberrt::trace
