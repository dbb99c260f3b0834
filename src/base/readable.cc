// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/readable.h"

#include "base/keep_errno.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

// The kernel reads the memory as a set of signals: no filter of system calls forbids that call, and emulators have it.
int check_readable(const void* from, size_t bytes) {
    if (!bytes) return 0;
    if (!from) return -EFAULT; // the system call takes null for no set
    KeepErrno errno_kept;
    constexpr uintptr_t page = 4096; // the smallest; a larger page is asked about several times
    uint64_t before;
    bool blocked = false;
    int error = 0;
    uintptr_t begin = reinterpret_cast<uintptr_t>(from);
    for (uintptr_t at = begin; at - begin < bytes && !error; at = (at | (page - 1)) + 1) {
        uint64_t* keep = blocked ? nullptr : &before;
        if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, at, keep, sizeof before) < 0) error = -errno;
        blocked |= !error;
    }
    if (blocked) syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
    return error;
}

} // namespace fiberrt
