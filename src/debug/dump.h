// SPDX-License-Identifier: MIT OR Apache-2.0
// The dump: every cord and every fiber of the process. fiber_dump and fiber_dump_as call it.
#pragma once

#include "base/report.h"
#include "fiberrt.h"

#include <stdint.h>

namespace fiberrt {

constexpr unsigned dump_flags_known = FIBER_DUMP_FRAMES | FIBER_DUMP_GROUPED | FIBER_DUMP_JSON;

struct DumpOptions {
    unsigned flags = 0;                    // FIBER_DUMP_FRAMES and so on: the form
    const void* caller = nullptr;          // an address in the function that asks
    int64_t timeout_ns = Report::for_ever; // how long it waits in all for a descriptor that takes nothing
    uint64_t only = 0;                     // the id of the only fiber that it tells of; 0: all
};

// Writes the dump to a descriptor. It calls no function of the program's allocator, switches no fibers and changes no
// state. 0; the error of write(2); -ENOMEM.
int dump(int fd, const DumpOptions& options);

} // namespace fiberrt
