// SPDX-License-Identifier: MIT OR Apache-2.0
// Answers transfers of no bytes without the kernel's own wait. The kernel does not ask the descriptor if there are
// several buffers and all are empty.
#include "io/empty_transfer.h"

#include "base/keep_errno.h"
#include "io/file_status.h"
#include "io/iovecs.h"
#include "io/ready.h"
#include "io/terminal.h"
#include "io/try_op.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

namespace fiberrt {

namespace {

bool wants_nothing(const Op& op) {
    bool vector = op.code == OpCode::readv || op.code == OpCode::writev;
    return vector ? all_empty(static_cast<const iovec*>(op.address), int(op.length)) : op.length == 0;
}

// Whether the kernel reads the array of buffers before the library does, and answers at once if all buffers are empty.
// That is so where run_read() tries a read first (except of a terminal), and where a ring tries a write to a pipe.
bool kernel_looks_first(const Op& op, const struct stat& file) {
    if (op.code == OpCode::readv) return type_of(file) != S_IFCHR;
    return op.code == OpCode::writev && type_of(file) == S_IFIFO && !is_named_fifo(file);
}

int64_t vector_of_nothing(int fd, bool writes) {
    KeepErrno keep;
    iovec nothing = {nullptr, 0};
    return (writes ? writev(fd, &nothing, 1) : readv(fd, &nothing, 1)) < 0 ? -errno : 0;
}

int64_t read_nothing(DescriptorGuard& guard, int fd, const struct stat& file) {
    TerminalMode mode;
    mode_t type = type_of(file);
    if (type == S_IFCHR && terminal_mode(fd, &mode)) {
        int allowed = terminal_check_read(fd);
        return allowed < 0 ? allowed : vector_of_nothing(fd, false);
    }
    KeepErrno keep;
    char byte;
    iovec too_short = {&byte, sizeof byte}; // for descriptors of type 0, whose reads do not wait
    bool may_wait = !type && preadv2(fd, &too_short, 1, -1, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP &&
                    vector_of_nothing(fd, false) == 0 && !too_short_to_wait(fd, 0);
    if (may_wait && !ready_now(fd, POLLIN)) {
        int64_t result = guard.wait_until_ready(fd, POLLIN, false);
        if (result < 0) return result;
    }
    return read(fd, nullptr, 0) < 0 ? -errno : 0;
}

int64_t write_nothing(int fd, const struct stat& file) {
    if (type_of(file) == S_IFCHR) {
        int allowed = check_write(fd);
        return allowed < 0 ? allowed : vector_of_nothing(fd, true);
    }
    KeepErrno keep;
    return write(fd, nullptr, 0) < 0 ? -errno : 0;
}

} // namespace

bool all_empty(const iovec* iov, int count) {
    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len) return false;
    }
    return true;
}

int64_t answer_at_once(DescriptorGuard& guard, const Op& op, const struct stat& file) {
    if (kernel_looks_first(op, file)) return not_answered;
    if (int error = Iovecs(op).check()) return error;
    if (!wants_nothing(op)) return not_answered;
    if (int error = guard.check()) return error;
    switch (op.code) {
    case OpCode::read: return guard.has_tried(op, read_nothing(guard, op.fd, file));
    case OpCode::write: return guard.has_tried(op, write_nothing(op.fd, file));
    default: return guard.has_tried(op, vector_of_nothing(op.fd, op.code == OpCode::writev));
    }
}

} // namespace fiberrt
