// SPDX-License-Identifier: MIT OR Apache-2.0
// Picks the backend of a cord: the one that FIBERRT_BACKEND names; without that io_uring, or, if the kernel refuses it
// to this process, libev. Io::open (io/io.h) calls it, and fiber_dump and fiberrt-doctor report its choice.
#pragma once

#include "core/backend.h"

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

// Opens a cord's backend. The last three parameters are those of Backend::open. Returns 0; -EINVAL: FIBERRT_BACKEND
// names no known backend; -ENOTSUP: the named backend, or every backend, is not built in or is refused by the kernel;
// -ENOMEM, -EMFILE, -ENFILE: not at this moment.
int backend_open(const Backend** backend, void** state, uint32_t* word, uint32_t asleep, int* doorbell_fd);

// Returns the backend that a cord would get now, by opening and closing one. Null, and *error as above: none.
const Backend* backend_find(int* error);

// Writes a sentence that says which backend backend_find() finds and why, or why it finds none. Cuts it to size, with
// the terminating zero; returns the length of the whole sentence.
int backend_explain(char* buffer, size_t size);

// Writes such a sentence about the last backend that a cord of the process has opened or failed to open. It neither
// asks the kernel nor allocates.
int backend_explain_last(char* buffer, size_t size);

// Whether the backend of this name is built in.
bool backend_built_in(const char* name);

} // namespace fiberrt
