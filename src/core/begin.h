// SPDX-License-Identifier: MIT OR Apache-2.0
// What layers above the core do once, before the process has its first cord: the simulation finds out whether it is
// wanted, fork installs its handlers. The core calls these functions without knowing them: each layer puts a pointer to
// its function into a section of the library, and the linker gives the core the begin and the end of that section.
#pragma once

namespace fiberrt {

// False: there is no memory, and the next call tries again. A function may be called again after it has succeeded.
using Beginning = bool (*)();

#if defined(__has_attribute) && __has_attribute(retain) // so that no linker drops the section
#define FIBERRT_IN_BEGIN_SECTION [[gnu::section("fiberrt_begin"), gnu::used, gnu::retain]]
#else
#define FIBERRT_IN_BEGIN_SECTION [[gnu::section("fiberrt_begin"), gnu::used]]
#endif

// In a namespace without a name: function will be called.
#define FIBERRT_BEGINS(function) FIBERRT_IN_BEGIN_SECTION constinit const Beginning begins_by_##function = function

// Calls them, if that has not been done. False: there is no memory.
bool process_begin();

} // namespace fiberrt
