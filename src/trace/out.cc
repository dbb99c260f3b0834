// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trace/out.h"

#include "base/write_signals.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt::trace {

namespace {

// A pipe that poll(2) calls ready has room for this much, so that a write of it does not wait.
constexpr size_t piece = PIPE_BUF;
constexpr int64_t look_again_ns = 100'000'000; // how often a write that waits looks whether it must hurry

} // namespace

void Out::open(int fd) {
    struct stat status;
    fd_ = fd;
    bool known = fstat(fd, &status) == 0;
    is_socket_ = known && S_ISSOCK(status.st_mode);
    waits_ = !known || !(S_ISREG(status.st_mode) || S_ISBLK(status.st_mode));
    error_ = 0;
    left_ = INT64_MAX;
    written_ = 0;
}

// Waits until the descriptor takes bytes. False: the time is over.
bool Out::await_room() {
    for (;;) {
        int64_t left = left_;
        pollfd ready = {fd_, POLLOUT, 0};
        timespec at = {0, look_again_ns}; // the kernel subtracts the time waited, also when a signal cuts it short
        long count = syscall(SYS_ppoll, &ready, 1, &at, nullptr, 0);
        if (count > 0 || (count < 0 && errno != EINTR)) return true; // after an error the write reports it
        if (count == 0) at.tv_nsec = 0;                              // a personality may forbid the subtraction
        if (left != INT64_MAX && (left_ = left - (look_again_ns - at.tv_nsec)) <= 0) return false;
    }
}

void Out::write(const uint8_t* bytes, size_t size) {
    NoWriteSignals none;
    while (size && !error_) {
        if (waits_ && !await_room()) {
            error_ = -ETIMEDOUT;
            return;
        }
        size_t part = waits_ && size > piece ? piece : size;
        // A socket with room for a part of the piece would block.
        long done = is_socket_ ? syscall(SYS_sendto, fd_, bytes, part, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0)
                               : syscall(SYS_write, fd_, bytes, part);
        if (done >= 0) {
            bytes += done;
            size -= size_t(done);
            written_ = written_ + uint64_t(done);
        } else if (errno != EAGAIN && errno != EINTR) {
            error_ = -errno;
            none.failed(errno);
        }
    }
}

void Out::hurry(int64_t most_ns) { left_ = most_ns; }

void Out::close() {
    if (fd_ >= 0) syscall(SYS_close, fd_);
    fd_ = -1;
}

} // namespace fiberrt::trace
