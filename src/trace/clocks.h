// SPDX-License-Identifier: MIT OR Apache-2.0
// The clocks of a trace.
#pragma once

#include "trace/packets.h"

namespace fiberrt::trace {

// The times of the three clocks now. In a simulation all three are its time.
Clocks clocks_now();

} // namespace fiberrt::trace
