// SPDX-License-Identifier: MIT OR Apache-2.0
// The answers to a client's request.
#pragma once

#include "agent/request.h"

#include <stdint.h>

namespace fiberrt {

// Writes the answer to the descriptor. Waits timeout_ns in all, at most, for a client that takes nothing.
void answer(const Request& request, int fd, int64_t timeout_ns);

// Writes a line that says why there is no answer.
void answer_error(int fd, const char* why, int64_t timeout_ns);

} // namespace fiberrt
