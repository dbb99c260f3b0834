// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations that the kernel has no thread of its own for (RLIMIT_NPROC), by plain system calls: better that this thread
// waits for a disk than that files cannot be used at all.
#include "io/op.h"

#include "base/keep_errno.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace fiberrt {

namespace {

bool is_fifo(const char* path) {
    struct stat file;
    return stat(path, &file) == 0 && S_ISFIFO(file.st_mode);
}

// Whether a transfer ends by itself. Not so for what readiness is told of: there, -ECANCELED is not for want of a thread.
bool ends_by_itself(int fd) {
    struct stat file;
    return fstat(fd, &file) == 0 && (S_ISREG(file.st_mode) || S_ISBLK(file.st_mode) || S_ISCHR(file.st_mode));
}

int64_t call(const Op& op) {
    iovec one = {op.address, op.length};
    bool vector = op.code == OpCode::readv || op.code == OpCode::writev;
    const iovec* iov = vector ? static_cast<const iovec*>(op.address) : &one;
    int count = vector ? int(op.length) : 1;
    switch (op.code) {
    case OpCode::open: return open(static_cast<const char*>(op.address), int(op.flags), op.length);
    case OpCode::statx:
        return statx(int(int64_t(op.offset)), static_cast<const char*>(op.address), int(op.flags), op.length,
                     static_cast<struct statx*>(op.address2));
    case OpCode::fsync: return op.flags & fsync_data_only ? fdatasync(op.fd) : fsync(op.fd);
    case OpCode::read:
    case OpCode::readv: return preadv2(op.fd, iov, count, off_t(op.offset), 0); // ~0: at its own position here too
    case OpCode::write:
    case OpCode::writev: return pwritev2(op.fd, iov, count, off_t(op.offset), 0);
    default: errno = EIO; return -1;
    }
}

} // namespace

int64_t plain_call(const Op& op) {
    KeepErrno keep;
    bool transfer = op.code <= OpCode::writev;
    if (transfer && !ends_by_itself(op.fd)) return -EIO;
    if (op.code == OpCode::open && is_fifo(static_cast<const char*>(op.address))) return -EAGAIN; // it could wait for ever
    int64_t result;
    do {
        result = call(op);
    } while (result < 0 && errno == EINTR);
    if (result >= 0) return result;
    return errno == ECANCELED ? -EIO : -errno; // to the caller that would speak of itself
}

} // namespace fiberrt
