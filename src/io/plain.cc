// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations by plain system calls that may block their thread: on the threads of the pool (io/offload.h), or, where
// neither the kernel nor we can make a thread (RLIMIT_NPROC), on the cord's own: better that this one waits for a disk
// than that files cannot be used at all.
#include "io/op.h"

#include "base/keep_errno.h"
#include "io/fifo.h"
#include "io/parts.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace fiberrt {

namespace {

bool opens_fifo(const Op& op) {
    struct stat file;
    int flags = op.flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0;
    return fstatat(AT_FDCWD, static_cast<const char*>(op.address), &file, flags) == 0 && S_ISFIFO(file.st_mode);
}

// Whether a transfer ends by itself. Not so for what readiness is told of: there, -ECANCELED is not for want of a
// thread.
bool ends_by_itself(int fd) {
    struct stat file;
    return fstat(fd, &file) == 0 && (S_ISREG(file.st_mode) || S_ISBLK(file.st_mode) || S_ISCHR(file.st_mode));
}

// For so many bytes a terminal that is ready has room, also if each becomes two; with more the write could wait in the
// middle, for ever.
constexpr size_t terminal_room = 128;

bool writable(int fd) {
    pollfd look = {fd, POLLOUT, 0};
    return poll(&look, 1, 0) > 0;
}

// As much as it takes without a wait; it was ready a moment ago.
int64_t write_terminal(int fd, const Parts& parts) {
    int64_t sum = 0;
    for (int i = 0; i < parts.count;) {
        // As many buffers as may go together, or a part of one.
        iovec piece = parts.iov[i];
        size_t bytes = piece.iov_len;
        int count = 1;
        while (i + count < parts.count && bytes + parts.iov[i + count].iov_len <= terminal_room) {
            bytes += parts.iov[i + count++].iov_len;
        }
        const iovec* group = parts.iov + i;
        for (size_t done = 0; done < bytes || bytes == 0;) {
            if (count == 1) {
                size_t left = bytes - done;
                piece = {static_cast<char*>(parts.iov[i].iov_base) + done, left < terminal_room ? left : terminal_room};
                group = &piece;
            }
            if (sum && !writable(fd)) return sum;
            ssize_t put = writev(fd, group, count);
            if (put < 0) return sum ? sum : put;
            sum += put;
            done += size_t(put);
            if (bytes == 0) break;
            if (count > 1 && done < bytes) return sum; // short: it has no room for more
        }
        i += count;
    }
    return sum;
}

int64_t call(const Op& op) {
    Parts parts(op);
    if (op.may_block && op.code != OpCode::open && isatty(op.fd)) return write_terminal(op.fd, parts);
    switch (op.code) {
    case OpCode::open: return open(static_cast<const char*>(op.address), int(op.flags), op.length);
    case OpCode::statx:
        return statx(int(int64_t(op.offset)), static_cast<const char*>(op.address), int(op.flags), op.length,
                     static_cast<struct statx*>(op.address2));
    case OpCode::close: return close(int(op.offset)) < 0 && errno != EINTR ? -1 : 0; // a signal: it is closed all the same
    case OpCode::fsync: return op.flags & fsync_data_only ? fdatasync(op.fd) : fsync(op.fd);
    case OpCode::read:
    case OpCode::readv: return preadv2(op.fd, parts.iov, parts.count, off_t(op.offset), 0); // ~0: at its own position here too
    case OpCode::write:
    case OpCode::writev: return pwritev2(op.fd, parts.iov, parts.count, off_t(op.offset), 0);
    default: errno = EIO; return -1;
    }
}

} // namespace

int64_t plain_call(const Op& op) {
    KeepErrno keep;
    bool transfer = op.code <= OpCode::writev;
    if (transfer && !ends_by_itself(op.fd)) return -EIO;
    if (waits_if_fifo(op) && opens_fifo(op)) return -EAGAIN; // it could be for ever
    int64_t result;
    do {
        result = call(op);
    } while (result < 0 && errno == EINTR);
    if (result >= 0) return result;
    return errno == ECANCELED ? -EIO : -errno; // to the caller that would speak of itself
}

} // namespace fiberrt
