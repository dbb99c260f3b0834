// SPDX-License-Identifier: MIT OR Apache-2.0
// What every file of the C boundary needs: handles to control blocks.
#pragma once

#include "core/cord.h"
#include "core/handles.h"
#include "core/hooks.h"
#include "core/relay.h"
#include "fiberrt.h"

#include <errno.h>

namespace fiberrt::api {

// Fills an output struct of `size` bytes, as the caller knows it, from ours; what we do not know becomes zero.
void copy_out(void* out, size_t size, const void* known, size_t known_size);

} // namespace fiberrt::api
