// SPDX-License-Identifier: MIT OR Apache-2.0
// The figures of cords, fibers and pools as OpenMetrics text, which monitoring systems such as Prometheus collect.
#pragma once

#include <stdint.h>

namespace fiberrt {

// Writes the text to a descriptor. Waits timeout_ns in all, at most, for a descriptor that takes nothing. 0; -ENOMEM;
// the errors of write(2).
int write_metrics(int fd, int64_t timeout_ns);

} // namespace fiberrt
