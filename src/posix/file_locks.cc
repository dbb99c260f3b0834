// SPDX-License-Identifier: MIT OR Apache-2.0
// Locks of files: flock, fcntl(F_SETLKW), lockf. The kernel reports a free lock only to a thread that blocks, so the
// fiber tries at growing intervals. The waiters get the lock in any order, and the kernel, which sees no waiter,
// reports no EDEADLK.
#include "posix/calls.h"
#include "posix/pauses.h"

#include <stdarg.h>

namespace fiberrt::posix {

namespace {

bool is_held(int error) { return error == EAGAIN || error == EACCES; }

} // namespace

int flock(int fd, int operation) noexcept {
    if ((operation & (LOCK_NB | LOCK_UN)) || !may_wait()) return ::flock(fd, operation);
    return until_free([&] { return ::flock(fd, operation | LOCK_NB); }, [](int error) { return error == EWOULDBLOCK; },
                      [&] { return ::flock(fd, operation); });
}

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void* argument = va_arg(rest, void*); // the argument of every command is a word at most
    va_end(rest);
    bool waits = command == F_SETLKW || command == F_OFD_SETLKW;
    if (!waits || !may_wait()) return ::fcntl(fd, command, argument);
    auto* lock = static_cast<struct flock*>(argument);
    if (!is_readable(lock) || lock->l_type == F_UNLCK) return ::fcntl(fd, command, lock);
    int once = command == F_SETLKW ? F_SETLK : F_OFD_SETLK;
    return until_free([&] { return ::fcntl(fd, once, lock); }, is_held, [&] { return ::fcntl(fd, command, lock); });
}

int lockf(int fd, int command, off_t bytes) {
    if (command != F_LOCK || !may_wait()) return ::lockf(fd, command, bytes);
    return until_free([&] { return ::lockf(fd, F_TLOCK, bytes); }, is_held, [&] { return ::lockf(fd, F_LOCK, bytes); });
}

} // namespace fiberrt::posix
