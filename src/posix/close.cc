// SPDX-License-Identifier: MIT OR Apache-2.0
// close, closefrom and close_range. None of them closes a descriptor without which the thread's cord cannot work: the
// program has not opened it, and closes it only if it closes all numbers.
#include "api/adopted.h"
#include "posix/calls.h"
#include "posix/wait.h"

#include <limits.h>

namespace fiberrt::posix {

namespace {

// The smallest own descriptor of the thread's cord from `first` on; UINT_MAX: there is none.
unsigned next_own(unsigned first) {
    int own[own_descriptors_most];
    unsigned next = UINT_MAX;
    for (int count = own_descriptors(own), i = 0; i < count; i++)
        if (unsigned(own[i]) >= first && unsigned(own[i]) < next) next = unsigned(own[i]);
    return next;
}

} // namespace

// Ends the waits of the thread's other fibers on the descriptor with EBADF first. Without such a wait, it does not wait
// where the kernel's close would not: its caller may hold a lock.
int close(int fd) {
    if (fd >= 0 && next_own(unsigned(fd)) == unsigned(fd)) {
        errno = EBADF;
        return -1;
    }
    if (!may_wait()) return ::close(fd);
    Entered entered;
    if (!entered) return ::close(fd);
    int result = close_for_library(fd);
    if (result == -EPERM || result == -ENOMEM || result == -ENOTSUP) return ::close(fd);
    if (result >= 0) return 0;
    errno = -result;
    return -1;
}

int close_range(unsigned first, unsigned last, int flags) noexcept {
    for (unsigned own; first <= last && (own = next_own(first)) <= last; first = own + 1) {
        if (own > first && ::close_range(first, own - 1, flags)) return -1;
        if (own == last) return ::close_range(UINT_MAX, UINT_MAX, flags); // closes nothing; the kernel checks the flags
    }
    return ::close_range(first, last, flags);
}

void closefrom(int lowest) noexcept {
    auto first = unsigned(lowest > 0 ? lowest : 0);
    KeepErrno errno_kept;
    for (unsigned own; (own = next_own(first)) != UINT_MAX; first = own + 1) {
        if (own == first || ::close_range(first, own - 1, 0) == 0) continue;
        for (; first < own; first++) (void)::close(int(first)); // a filter of system calls has refused it
    }
    ::closefrom(int(first));
}

} // namespace fiberrt::posix
