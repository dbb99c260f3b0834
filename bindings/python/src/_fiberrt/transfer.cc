// SPDX-License-Identifier: MIT OR Apache-2.0
#include "transfer.h"

#include "mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace fiberrt_python {

namespace {

// The transfers of this thread's fibers that wait and use the position of a file. Until they end, the kernel does not
// know the position after them, so other transfers queue behind them in the core.
thread_local int positions_in_use;

class UsesPosition {
public:
    explicit UsesPosition(int64_t position) : uses_(position == own_position) { positions_in_use += uses_; }
    ~UsesPosition() { positions_in_use -= uses_; }
    UsesPosition(const UsesPosition&) = delete;
    UsesPosition& operator=(const UsesPosition&) = delete;

private:
    bool uses_;
};

// A loop of transfers that do not wait lets other fibers run, like a loop of polls.
bool give_turn() { return !this_world->live_count || poll_turn_slowly(); }

// Reads what the page cache has. Returns 0 if nothing is left to read, -EAGAIN if the rest must be waited for, or an
// error.
int read_cached(int fd, char* memory, size_t size, int64_t position, size_t* done) {
    while (*done < size) {
        iovec part = {memory + *done, size - *done};
        ssize_t got = preadv2(fd, &part, 1, position == own_position ? -1 : position + int64_t(*done), RWF_NOWAIT);
        if (got == 0) return 0;
        if (got > 0)
            *done += size_t(got);
        else if (errno == EOPNOTSUPP || errno == ENOSYS)
            return -EAGAIN; // the file system or the kernel cannot tell
        else if (errno != EINTR)
            return -errno;
    }
    return 0;
}

// Goes on after `done` bytes: an error or a cancel must not lose these.
int64_t read_rest(int fd, char* memory, size_t size, int64_t position, bool* at_end, size_t done) {
    bool busy = position == own_position && positions_in_use;
    if (!busy) {
        int error = read_cached(fd, memory, size, position, &done);
        if (at_end) *at_end = !error && done < size;
        if (!error || (error != -EAGAIN && done)) return int64_t(done);
        if (error != -EAGAIN) {
            raise_errno(error);
            return -1;
        }
    }
    UsesPosition use(position);
    return perform("read", Timeout(), [&]() -> int64_t {
        int64_t got = position == own_position ? fiber_read(fd, memory + done, size - done)
                                               : fiber_pread(fd, memory + done, size - done, position + int64_t(done));
        if (got >= 0) return int64_t(done) + got;
        if (!done) return got;
        if (got == -EINTR) fiber_interrupt(this_world->current->handle, nullptr); // for the next call
        return int64_t(done);
    });
}

} // namespace

bool known_status(int fd, struct statx* status) {
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, status) == 0;
}

FileKind kind_of(int fd) {
    struct statx status;
    if (!known_status(fd, &status)) return FileKind::unknown;
    switch (status.stx_mode & S_IFMT) {
    case S_IFREG:
    case S_IFBLK:
        return device_is_slow(makedev(status.stx_dev_major, status.stx_dev_minor)) ? FileKind::slow : FileKind::disk;
    case S_IFDIR: return FileKind::never;
    case S_IFCHR: return status.stx_rdev_major == 1 ? FileKind::never : FileKind::stream; // 1: /dev/null, urandom, …
    default: return FileKind::stream;
    }
}

int64_t read_file(int fd, char* memory, size_t size, int64_t position, bool* at_end) {
    return give_turn() ? read_rest(fd, memory, size, position, at_end, 0) : -1;
}

int64_t read_at_once(int fd, char* memory, size_t size, int64_t position, bool* raised) {
    *raised = !give_turn();
    if (*raised || positions_in_use || !size || fiber_cancelled(nullptr) > 0) return -1;
    iovec part = {memory, size};
    int64_t got = preadv2(fd, &part, 1, position, RWF_NOWAIT);
    if (got <= 0 || size_t(got) == size) return got;
    return kind_of(fd) != FileKind::disk ? got : read_rest(fd, memory, size, position, nullptr, size_t(got));
}

int64_t write_file(int fd, const char* memory, size_t size, int64_t position) {
    Shield shield; // also at the end of a fiber that was cancelled, a file is written
    UsesPosition use(position);
    return perform("write", Timeout(), [&]() -> int64_t {
        return position == own_position ? fiber_write(fd, memory, size) : fiber_pwrite(fd, memory, size, position);
    });
}

int64_t write_all(int fd, iovec* parts, int count, bool holds_back) {
    size_t whole = 0;
    for (int i = 0; i < count; i++) whole += parts[i].iov_len;
    size_t written = 0;
    return perform("write", Timeout(), [&]() -> int64_t {
        do {
            int64_t some = fiber_writev(fd, parts, count);
            if (some == -EINTR && written) {
                if (!has_thrown()) continue;
                if (!holds_back) return some;
                fiber_interrupt(this_world->current->handle, nullptr); // for the next call
            }
            if (some < 0) return written ? int64_t(written) : some;
            written += size_t(some);
            for (size_t left = size_t(some); left;) {
                size_t here = left < parts->iov_len ? left : parts->iov_len;
                parts->iov_base = static_cast<char*>(parts->iov_base) + here;
                parts->iov_len -= here;
                left -= here;
                if (left) parts++, count--;
            }
        } while (written < whole);
        return int64_t(written);
    });
}

} // namespace fiberrt_python
