// SPDX-License-Identifier: MIT OR Apache-2.0
// Ends the process after a broken invariant: prints one line, allocates nothing, and aborts.
#include "base/check.h"

#include "base/report.h"

#include <stdlib.h>
#include <unistd.h>

namespace fiberrt {

void check_failed(const char* what) { // coverage: ends process
    Report r(STDERR_FILENO, Report::unasked_ns);
    r.put("fiberrt: internal check failed: ");
    r.put(what);
    r.put('\n');
    r.end();
    abort();
}

} // namespace fiberrt
