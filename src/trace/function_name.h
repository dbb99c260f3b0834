// SPDX-License-Identifier: MIT OR Apache-2.0
// The name of a fiber's function, for the fiber's track.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt::trace {

// Stores the function's name, or the file that has it and the place there: the same in each run of a program.
void function_name(uintptr_t function, char* out, size_t size);

} // namespace fiberrt::trace
