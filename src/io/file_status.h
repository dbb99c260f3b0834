// SPDX-License-Identifier: MIT OR Apache-2.0
// The type of a descriptor's file, and whether it has a position.
#pragma once

#include "base/keep_errno.h"
#include "core/hooks.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fiberrt {

// Returns the status of a descriptor; its type is 0 if there is no such descriptor. The call has not counted its use of
// the descriptor yet, so another thread may close it at this moment. That is no error, but ThreadSanitizer would report
// it, except for fstatat, which it does not watch.
inline struct stat status_of(int fd) {
    KeepErrno keep;
    struct stat status;
    int failed = hooks::watches_descriptors() ? fstatat(fd, "", &status, AT_EMPTY_PATH) : fstat(fd, &status);
    if (failed) status.st_mode = 0;
    return status;
}

// The flags of an open that may make a file, which then takes the call's mode.
constexpr int makes_file = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);

inline mode_t type_of(const struct stat& file) { return file.st_mode & S_IFMT; }

inline int64_t position_of(int fd) { // -1: it has none
    KeepErrno keep;
    return lseek(fd, 0, SEEK_CUR);
}

// Whether POSIX orders transfers at the file's own position one after another. Only on these files the kernel itself
// retries short transfers.
inline bool counts_position(const struct stat& file) { return type_of(file) == S_IFREG || type_of(file) == S_IFBLK; }

// Whether it is a FIFO of a file system. Such a FIFO may have no writer yet, and a read then ends at once.
bool is_named_fifo(const struct stat& file);

} // namespace fiberrt
