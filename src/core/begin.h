// SPDX-License-Identifier: MIT OR Apache-2.0
// Functions of layers above the core that the core calls once: the simulation finds out whether it is wanted, fork
// installs its handlers. The core does not know their names: each layer puts a pointer to its function into a section
// of the library, and the linker gives the core the begin and the end of that section.
#pragma once

#include <stdint.h>

namespace fiberrt {

enum class When : uint8_t {
    // Before the library first asks whether a thread has a cord. A lock of a mutex asks, in a thread without a cord
    // too.
    first_query,
    first_cord, // before the first cord
    ready,      // after all of first_cord, when it is known whether there is a simulation
};

struct Initializer {
    When when;
    // False: there is no memory, and the next call tries again. The core may call it again after success.
    bool (*begin)();
};

#if defined(__has_attribute) && __has_attribute(retain) // so that no linker drops the section
#define FIBERRT_IN_BEGIN_SECTION [[gnu::section("fiberrt_begin"), gnu::used, gnu::retain]]
#else
#define FIBERRT_IN_BEGIN_SECTION [[gnu::section("fiberrt_begin"), gnu::used]]
#endif

// Registers a function for the core to call at that time. For use in a namespace without a name.
#define FIBERRT_INITIALIZER(when, function) \
    FIBERRT_IN_BEGIN_SECTION constinit const Initializer initializer_##function = {when, function}

// Calls the functions for the time before the first cord; one of them may install the environment. 0; -ENOMEM;
// -ENOTSUP: the calling thread may have no cord in that environment.
int environment_begin();

// Calls all registered functions that have not been called. False: there is no memory.
bool process_begin();

} // namespace fiberrt
