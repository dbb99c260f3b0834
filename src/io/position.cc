// SPDX-License-Identifier: MIT OR Apache-2.0
// The file-position lock, and corrections of positions that io_uring does not move.
#include "io/position.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "core/scheduler.h"
#include "io/file_status.h"
#include "io/io.h"
#include "io/ready.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

namespace {

// Moves a position that a transfer should have moved and did not.
void correct_position(const Op& op, int64_t transferred) {
    KeepErrno keep;
    bool writes = op.code == OpCode::write || op.code == OpCode::writev;
    bool appended = writes && fcntl(op.fd, F_GETFL) & O_APPEND;
    lseek(op.fd, appended ? 0 : transferred, appended ? SEEK_END : SEEK_CUR);
}

} // namespace

PositionLock::PositionLock(DescriptorGuard& guard, int fd, const struct stat& file)
    : guard_(guard), fd_(fd), device_(file.st_dev), inode_(file.st_ino) {}

PositionLock::~PositionLock() {
    if (!linked()) return;
    unlink();
    PositionLock* next = first();
    if (next && next->fiber) wake(next, 0);
}

int PositionLock::lock() {
    if (int error = guard_.check()) return error;
    Io& io = io_of(guard_.cord_);
    list_ = &io.position_locks[inode_ % (sizeof io.position_locks / sizeof *io.position_locks)];
    list_->push_back(this);
    if (first() == this) return 0;
    Wait::stop = stop_at_once;
    what = WaitFor::position;
    return int(guard_.wait(*this));
}

PositionLock* PositionLock::first() {
    PositionLock* lock = list_->front();
    while (lock && !same_position(*lock)) lock = list_->after(lock);
    return lock;
}

// Whether two locks are for one position. A file that was opened twice has two positions; a descriptor and its copy
// have one. If the kernel does not tell which, they count as one.
bool PositionLock::same_position(const PositionLock& other) const {
    if (fd_ == other.fd_) return true;
    if (inode_ != other.inode_ || device_ != other.device_) return false;
    KeepErrno keep;
    pid_t pid = getpid();
    return syscall(SYS_kcmp, pid, pid, KCMP_FILE, fd_, other.fd_) <= 0;
}

bool has_positions(int fd, const struct stat& file, bool writes) {
    KeepErrno keep;
    int error = syscall(writes ? SYS_pwritev : SYS_preadv, fd, nullptr, -1L, 0L, 0L) < 0 ? errno : 0;
    bool stream = type_of(file) == S_IFIFO || type_of(file) == S_IFSOCK;
    return error != ESPIPE && (error == EBADF || !stream);
}

// io_uring does not move the position if the transfer bypasses the page cache (O_DIRECT), nor if it transferred a part
// and failed to transfer the rest (no space left, a limit, an unmapped page, a bad sector). The result does not show
// that, so this compares the position with the one before. It does not notice if another thread or process moves the
// same position meanwhile.
int64_t run_at_position(DescriptorGuard& guard, Op& op, const struct stat& file, int events) {
    {
        PositionLock lock(guard, op.fd, file);
        if (int error = lock.lock()) return error;
        int64_t before = position_of(op.fd);
        if (before >= 0) {
            int64_t result = run_until_ready(guard, op, events);
            if (result > 0 && !guard.backend_only_polls() && position_of(op.fd) == before) correct_position(op, result);
            return result;
        }
    }
    return run_until_ready(guard, op, events); // coverage: race
}

} // namespace fiberrt
