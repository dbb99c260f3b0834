// SPDX-License-Identifier: MIT OR Apache-2.0
// The headers that every file of src/api needs. These files define the functions of fiberrt.h: each checks its
// arguments, finds the cord and the objects, and calls the layer that does the work.
#pragma once

#include "core/cord.h"
#include "core/handles.h"
#include "core/hooks.h"
#include "core/scheduler.h"
#include "fiberrt.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

namespace fiberrt::api {

// Copies the library's struct to the caller's, whose size may differ with the release that the caller was built with.
// Bytes that the library does not know become 0.
inline void copy_out(void* out, size_t size, const void* known, size_t known_size) {
    size_t common = size < known_size ? size : known_size;
    memcpy(out, known, common);
    memset(static_cast<char*>(out) + common, 0, size - common);
}

inline bool bad_buffer(const void* buffer, size_t count) { return (!buffer && count) || count > SSIZE_MAX; }

} // namespace fiberrt::api
