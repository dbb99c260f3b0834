// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks the kernel whether memory that the program names can be read, before the library itself reads it: a call with a
// bad address returns -EFAULT then, as the system call does, and does not end the process.
#pragma once

#include <stddef.h>

namespace fiberrt {

// Returns 0 or -EFAULT; of no bytes, 0. Needs two system calls, and one more for each further page. Up to seven bytes
// behind the range must be readable too, if there are fewer than eight in it.
int check_readable(const void* from, size_t bytes);

} // namespace fiberrt
