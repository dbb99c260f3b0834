// SPDX-License-Identifier: MIT OR Apache-2.0
// What this layer does around a fork.
#pragma once

#include "core/fork_part.h"

namespace fiberrt {

extern const ForkPart fork_part_of_sync;

} // namespace fiberrt
