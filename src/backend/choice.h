// SPDX-License-Identifier: MIT OR Apache-2.0
// Which backend a cord gets: the one that FIBERRT_BACKEND names; without that io_uring, and where the kernel refuses it
// to this process, libev.
#pragma once

#include "core/backend.h"

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

// Opens a cord's backend; the last three are Backend::open's. 0; -EINVAL: FIBERRT_BACKEND names none that we know;
// -ENOTSUP: the one it names, or every one, is not built in or is refused by the kernel; -ENOMEM, -EMFILE, -ENFILE: not
// now.
int backend_open(const Backend** backend, void** state, uint32_t* word, uint32_t parked, int* doorbell_fd);

// Which it would be, found out by opening and closing one; null, and *error as above: none.
const Backend* backend_find(int* error);

// Says in a sentence which backend backend_find() finds and why, or why none. Cuts to size, with the terminating zero;
// returns the length of the whole sentence.
int backend_explain(char* buffer, size_t size);

// The same of the last backend that a cord of the process has opened or could not open, without asking the kernel or
// allocating.
int backend_explain_last(char* buffer, size_t size);

// Whether a backend is built in, by its name.
bool backend_built_in(const char* name);

} // namespace fiberrt
