// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether the C library's locks have the memory layout that src/posix expects.
#pragma once

namespace fiberrt::posix {

// The first call locks one lock of each kind, and checks its members. Returns false if they differ: this is another C
// library, or a changed one. Then the lock functions of adopted libraries stay as they are, and a sentence on standard
// error says so.
bool locks_are_known();

// After locks_are_known(): whether another library than the C library defines the functions of condition variables.
bool conditions_are_interposed();

} // namespace fiberrt::posix
