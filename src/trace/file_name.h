// SPDX-License-Identifier: MIT OR Apache-2.0
// The names of trace files.
#pragma once

#include <stddef.h>

namespace fiberrt::trace {

// Copies the name. %p becomes the number of the process, %% a single %. 0, -ENAMETOOLONG.
int file_name(const char* pattern, char* out, size_t size);

} // namespace fiberrt::trace
