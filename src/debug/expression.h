// SPDX-License-Identifier: MIT OR Apache-2.0
// Expressions of the DWARF standard (version 5, section 2.5), by which CFI tells addresses and values.
#pragma once

#include "debug/cfi.h"
#include "debug/stack_reader.h"

namespace fiberrt {

// Computes an expression. first: null, or the value on its stack at the beginning. False: it cannot be computed.
bool evaluate(Cursor code, const Registers& registers, Reader& reader, const uint64_t* first, uint64_t* out);

} // namespace fiberrt
