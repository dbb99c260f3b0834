// SPDX-License-Identifier: MIT OR Apache-2.0
// close: ends the waits of the thread's other fibers on the descriptor with EBADF first. Without such a wait, it does not
// wait where the kernel's close would not: its caller may hold a lock.
#include "api/adopted.h"
#include "posix/calls.h"
#include "posix/wait.h"

namespace fiberrt::posix {

int close(int fd) {
    if (!may_wait()) return ::close(fd);
    Entered entered;
    if (!entered) return ::close(fd);
    int result = close_for_library(fd);
    if (result == -EPERM || result == -ENOMEM || result == -ENOTSUP) return ::close(fd);
    if (result >= 0) return 0;
    errno = -result;
    return -1;
}

} // namespace fiberrt::posix
