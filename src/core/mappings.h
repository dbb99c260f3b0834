// SPDX-License-Identifier: MIT OR Apache-2.0
// Admission of guard pages that cost mappings of their own. The kernel allows a process vm.max_map_count mappings; when
// fibers have used them up, malloc, mmap and the loading of libraries fail everywhere in the program. So stacks ask
// here first, and are refused while there is still room for the rest of the program.
//
// For all cords together; any thread may call.
#pragma once

#include <stdint.h>

namespace fiberrt {

// Asks for this many mappings, which the caller will make. False: refused; the rest is kept for the program.
bool mappings_take(int64_t count) __asm__("fiberrt_mappings_take"); // the fuzz target stack_pool replaces this name

// Gives back mappings that were taken: they are unmapped, or could not be made.
void mappings_give_back(int64_t count) __asm__("fiberrt_mappings_give_back"); // and this one

int64_t mappings_limit(); // how many the kernel allows

// How many mappings could be taken now under this limit, if the rest of the program maps no more.
int64_t mappings_room(int64_t limit);

// Around a fork: no thread counts mappings between these two.
void mappings_lock();
void mappings_unlock();

} // namespace fiberrt
