// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds other copies of this library in the process: a program or a Python extension may contain one. This copy cannot
// suspend the fibers of another copy.
#pragma once

#include "posix/objects.h"

namespace fiberrt::posix {

// Whether the object contains a copy of this library, or is the library.
bool has_note(const Object& object);

} // namespace fiberrt::posix
