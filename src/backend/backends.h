// SPDX-License-Identifier: MIT OR Apache-2.0
// The backends that perform operations by the kernel, for backend/selection.cc and the tests.
#pragma once

#include "core/backend.h"

namespace fiberrt {

extern const Backend uring_backend;
extern const Backend ev_backend;
extern bool uring_may_use_futex_op; // tests of the eventfd set it to false
extern uint32_t uring_refused_ops;  // tests set bits, 1 << OpCode, as if the kernel had no such operation

} // namespace fiberrt
