// SPDX-License-Identifier: MIT OR Apache-2.0
// Adopts loaded libraries: writes the functions of posix/calls.h and posix/locks.h into the table by which a library
// calls the C library (its global offset table). Only the library's own calls change.
#pragma once

namespace fiberrt::posix {

// A flag of adopt, for bindings of other languages: also replaces the functions that posix::runtime lists.
constexpr unsigned with_those_of_runtime = 1u << 31;

// fiber_posix_adopt, fiber_posix_release, fiber_posix_each; the arguments have been checked.
int adopt(const char* library, unsigned flags);
int release(const char* library);
int each(int (*visit)(const char* path, const char* function, void* arg), void* arg);

// Called after a library was loaded. Adopts each loaded object that a call of adopt with FIBER_POSIX_LATER names.
void adopt_loaded();

} // namespace fiberrt::posix
