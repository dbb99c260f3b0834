// SPDX-License-Identifier: MIT OR Apache-2.0
// The library's one clock.
#pragma once

#include <stdint.h>

namespace fiberrt {

int64_t clock_now(); // nanoseconds of CLOCK_MONOTONIC

} // namespace fiberrt
