// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads what a fiber waits for, and its scopes, during a look (debug/look.h).
#pragma once

#include "core/scope.h"
#include "debug/look.h"

namespace fiberrt {

// Reads what the fiber waits for. False: it cannot be read, or the fiber is not in that Wait.
bool read_wait(const Fiber* fiber, const Wait* at, WaitSnapshot& out);

// Reads the reason that a host has given for the yield of a stackless fiber.
void read_reason(const Fiber& image, Snapshot& out);

// Reads the scopes from this one, the innermost, to the outermost.
void read_scopes(const Scope* at, Snapshot& out);

} // namespace fiberrt
