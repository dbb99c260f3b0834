// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns of calls at the position of a file.
#include "io/position_turn.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "core/relay.h"
#include "io/io.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

PositionTurn::PositionTurn(DescriptorUse& use, int fd, const struct stat& file)
    : use_(use), fd_(fd), device_(file.st_dev), inode_(file.st_ino) {}

PositionTurn::~PositionTurn() {
    if (!linked()) return;
    unlink();
    PositionTurn* next = first();
    if (next && next->fiber) wake(next, 0);
}

int PositionTurn::take() {
    if (int error = use_.check()) return error;
    Io& io = io_of(use_.cord_);
    list_ = &io.turns[inode_ % (sizeof io.turns / sizeof *io.turns)];
    list_->push_back(this);
    if (first() == this) return 0;
    Wait::stop = stop_at_once;
    what = WaitFor::position;
    return int(use_.wait(*this));
}

PositionTurn* PositionTurn::first() {
    PositionTurn* turn = list_->front();
    while (turn && !same_position(*turn)) turn = list_->after(turn);
    return turn;
}

// A file that was opened twice has two positions, a descriptor and its copy have one. If the kernel does not tell which
// it is, they count as one.
bool PositionTurn::same_position(const PositionTurn& other) const {
    if (fd_ == other.fd_) return true;
    if (inode_ != other.inode_ || device_ != other.device_) return false;
    KeepErrno keep;
    pid_t pid = getpid();
    return syscall(SYS_kcmp, pid, pid, KCMP_FILE, fd_, other.fd_) <= 0;
}

} // namespace fiberrt
