// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers at an offset: pread, pwrite and similar functions. A file with offsets needs no wait, so these call the C
// library. Only preadv2 and pwritev2 also take other descriptors, with the offset -1.
#include "posix/calls.h"
#include "posix/wait.h"

namespace fiberrt::posix {

namespace {

// Lets other fibers run from time to time: the caller may make many of these calls in a row.
template <class Result>
Result fair(Result result) {
    return may_wait() ? at_once(result) : result;
}

} // namespace

ssize_t pread(int fd, void* buffer, size_t count, off_t offset) { return fair(::pread(fd, buffer, count, offset)); }

ssize_t pread_chk(int fd, void* buffer, size_t count, off_t offset, size_t size) {
    if (count > size) __chk_fail();
    return posix::pread(fd, buffer, count, offset);
}

ssize_t pwrite(int fd, const void* data, size_t count, off_t offset) { return fair(::pwrite(fd, data, count, offset)); }

ssize_t preadv(int fd, const iovec* parts, int count, off_t offset) { return fair(::preadv(fd, parts, count, offset)); }

ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
    return fair(::pwritev(fd, parts, count, offset));
}

ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
    if (offset == -1 && !flags) return posix::readv(fd, parts, count);
    return fair(::preadv2(fd, parts, count, offset, flags));
}

ssize_t pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags) {
    if (offset == -1 && !flags) return posix::writev(fd, parts, count);
    return fair(::pwritev2(fd, parts, count, offset, flags));
}

} // namespace fiberrt::posix
