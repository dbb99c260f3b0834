// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes the linker's name of a C++ function readable. The C++ runtime's own function for that allocates memory.
#pragma once

#include <stddef.h>

namespace fiberrt {

// Stores "server::read" for "_ZN6server4readEi", without the types of the parameters. False: the name is no such plain
// one (it has templates, or is an operator's, say), or is too long.
bool plain_name(const char* linkers_name, char* out, size_t size);

} // namespace fiberrt
