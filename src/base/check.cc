// SPDX-License-Identifier: MIT OR Apache-2.0
// How a broken invariant ends the process: one line, no allocation, then abort.
#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

namespace fiberrt {

void check_failed(const char* what) {
    const char head[] = "fiberrt: internal check failed: ";
    iovec parts[] = {{const_cast<char*>(head), sizeof head - 1},
                     {const_cast<char*>(what), strlen(what)},
                     {const_cast<char*>("\n"), 1}};
    if (writev(STDERR_FILENO, parts, 3) < 0) abort();
    abort();
}

} // namespace fiberrt
