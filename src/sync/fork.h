// SPDX-License-Identifier: MIT OR Apache-2.0
// The part of fork() for this layer; src/fork calls it.
#pragma once

#include "core/fork_part.h"

namespace fiberrt {

extern const ForkPart fork_part_of_sync;

} // namespace fiberrt
