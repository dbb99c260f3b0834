// SPDX-License-Identifier: MIT OR Apache-2.0
// The I/O layer's part in a fork: src/fork/fork.cc calls it before and after.
#pragma once

#include "core/fork_part.h"

namespace fiberrt {

extern const ForkPart fork_part_of_io;

} // namespace fiberrt
