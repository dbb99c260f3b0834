// SPDX-License-Identifier: MIT OR Apache-2.0
// Where fibers were created, if the program asks for it (fiber_record_creation).
//
// While it is on, each cord says that it has no room for more fibers (CordWorld::Counts::room), so fiber_create takes
// its slow way, which calls the observer here. While it is off, it costs fibers nothing. The records lie next to the
// table of fibers: one for each slot, with the generation of its fiber.
#pragma once

#include "fiberrt.h"

#include <stdint.h>

namespace fiberrt {

struct Creation {
    uintptr_t at; // the first return address outside the library, on the stack of the call that created the fiber
    uint64_t by;  // the fiber that made the call; 0: a thread without a cord
};

// Turns the records on or off. 0, -ENOMEM.
int record_creation(bool on);

// Reads the record of a fiber. False: there is none.
bool creation_of(fiber_t fiber, Creation* out);

// For fork: between lock and unlock, no thread turns the records on or off.
void creation_lock();
void creation_unlock();

} // namespace fiberrt
