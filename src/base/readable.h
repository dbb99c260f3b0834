// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks the kernel whether the program's memory can be read, before the library reads it. So a call with a bad address
// returns -EFAULT, as the system call does, and does not end the process.
#pragma once

#include <stddef.h>

namespace fiberrt {

// Returns 0 or -EFAULT; 0 for no bytes. Needs two system calls, and one more for each further page. If the range has
// fewer than eight bytes, up to seven bytes behind it must be readable, too.
int check_readable(const void* from, size_t bytes);

// Copies memory of the program that other threads may change, or unmap, meanwhile. Returns how many bytes were copied:
// fewer than `bytes` if the rest is not mapped. -EFAULT: nothing is; -ENOTSUP: the kernel offers no way. Where the
// kernel has no process_vm_readv(2), it opens /proc/self/mem for the moment of the call.
ptrdiff_t copy_readable(void* to, const void* from, size_t bytes);

} // namespace fiberrt
