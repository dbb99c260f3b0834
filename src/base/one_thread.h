// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether the process has one thread only. glibc has a flag that tells it since 2.32.
#pragma once

#include "base/c_library.h"

#if FIBERRT_GLIBC(2, 32)
#include <sys/single_threaded.h>
#else
#include "base/keep_errno.h"

#include <sys/stat.h>
#endif

namespace fiberrt {

// True: the process has one thread, so plain loads and stores may replace atomic ones. False does
// not mean that there are other threads.
inline bool surely_one_thread() {
#if FIBERRT_GLIBC(2, 32)
    return __libc_single_threaded;
#else
    return false;
#endif
}

// Whether the process has one thread; also false if the kernel does not tell. A system call with an old C library.
// Other threads may have ended just now: the caller must look again for messages that they have left.
inline bool one_thread() {
#if FIBERRT_GLIBC(2, 32)
    return __libc_single_threaded;
#else
    KeepErrno keep;
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3; // a link for each thread, and two more
#endif
}

} // namespace fiberrt
