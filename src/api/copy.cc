// SPDX-License-Identifier: MIT OR Apache-2.0
// Data from one descriptor to another: fiber_splice, which moves some bytes, and fiber_copy, which copies to the end.
#include "io/copy.h"

#include "api/api.h"
#include "io/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>

using namespace fiberrt;

int64_t fiber_splice(int fd_in, int64_t* offset_in, int fd_out, int64_t* offset_out, size_t count, unsigned flags) {
    constexpr unsigned known_flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT;
    if (flags & ~known_flags || count > SSIZE_MAX) return -EINVAL;
    if ((offset_in && *offset_in < 0) || (offset_out && *offset_out < 0)) return -EINVAL;
    Cord* cord = cord_here();
    return cord ? splice_between(*cord, fd_in, offset_in, fd_out, offset_out, count, flags) : no_cord();
}

int64_t fiber_copy(int fd_in, int fd_out, int64_t limit, int64_t* written, int64_t* lost) {
    if (written) *written = 0;
    if (lost) *lost = 0;
    if (limit < 0) return -EINVAL;
    Cord* cord = cord_here();
    return cord ? copy_to_end(*cord, fd_in, fd_out, limit, written, lost) : no_cord();
}
