// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trace/file_name.h"

#include "base/report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

namespace fiberrt::trace {

int file_name(const char* pattern, char* out, size_t size) {
    size_t used = 0;
    for (; *pattern; pattern++) {
        char part[24] = {*pattern};
        if (pattern[0] == '%' && pattern[1] == 'p') {
            Report number(-1);
            number.number(uint64_t(getpid()));
            number.take(part, sizeof part);
            pattern++;
        } else if (pattern[0] == '%' && pattern[1] == '%') {
            pattern++;
        }
        size_t length = strlen(part);
        if (used + length >= size) return -ENAMETOOLONG;
        memcpy(out + used, part, length);
        used += length;
    }
    out[used] = '\0';
    return 0;
}

} // namespace fiberrt::trace
