// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/readable.h"

#include "base/keep_errno.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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

namespace {

// Emulators, and some filters of system calls, lack process_vm_readv.
ptrdiff_t copy_by_file(void* to, const void* from, size_t bytes) {
    long file = syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return -ENOTSUP;
    long copied = syscall(SYS_pread64, file, to, bytes, from);
    syscall(SYS_close, file);
    return copied > 0 ? copied : -EFAULT;
}

} // namespace

ptrdiff_t copy_readable(void* to, const void* from, size_t bytes) {
    KeepErrno errno_kept;
    iovec local = {to, bytes};
    iovec remote = {const_cast<void*>(from), bytes};
    // syscall() takes longs: of an int on the stack, the upper half is not set.
    long copied = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, &remote, 1UL, 0UL);
    if (copied < 0 && (errno == ENOSYS || errno == EPERM)) return copy_by_file(to, from, bytes);
    return copied > 0 ? copied : -EFAULT;
}

} // namespace fiberrt
