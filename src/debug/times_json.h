// SPDX-License-Identifier: MIT OR Apache-2.0
// The times of fibers and cords as members of a dump's JSON, if accounting is on.
#pragma once

#include "base/json.h"
#include "core/cord.h"

#include <stdint.h>

namespace fiberrt {

// Puts no member if the times are not known.
void put_times_of_fiber(Json& out, uint64_t id);
void put_times_of_cord(Json& out, Cord& cord, uint32_t generation);

} // namespace fiberrt
