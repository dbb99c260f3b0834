// SPDX-License-Identifier: MIT OR Apache-2.0
// Which code is the library's own, so that backtraces can leave it out.
#pragma once

#include <stdint.h>

namespace fiberrt {

// Whether this is the name, as linkers have it, of a public function of the library; of any function of the library.
bool is_public_name(const char* name);
bool is_own_name(const char* name);

// Finds out where the library's code lies. False: there is no memory. Call it before is_own_code().
bool own_code_begin();

// Whether the library has the code at this address. Takes a lock for a moment. If the library is part of the program,
// the first question about each address in the program reads a file.
bool is_own_code(uintptr_t address);

// For fork: between lock and unlock, no thread asks.
void own_code_lock();
void own_code_unlock();

} // namespace fiberrt
