// SPDX-License-Identifier: MIT OR Apache-2.0
// Fibers that wait for signals, by a signalfd.
#include "io/sigwait.h"

#include "base/keep_errno.h"
#include "core/cancel.h"
#include "core/cord.h"
#include "io/io.h"
#include "io/own.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

namespace fiberrt {

namespace {

// Waits for a signal and takes it. Only the read that succeeds takes the signal from the kernel, on this thread and
// right before the call returns. So no signal is lost if the wait ends early, and only one of several waiting fibers
// gets it.
int wait_for_one(DescriptorGuard& guard, int fd, signalfd_siginfo* info) {
    int64_t result = guard.check();
    while (result >= 0) {
        if (read(fd, info, sizeof *info) == ssize_t(sizeof *info)) return int(info->ssi_signo);
        if (errno != EAGAIN && errno != EINTR) return -errno;
        result = guard.wait_until_ready(fd, POLLIN, false);
    }
    return int(result);
}

} // namespace

// SIGKILL and SIGSTOP, which cannot be blocked, are ignored, as a fiber can never receive them.
bool all_blocked(const sigset_t& set) {
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    int count = 0;
    for (int signal = 1; signal < NSIG; signal++) {
        if (sigismember(&set, signal) != 1 || signal == SIGKILL || signal == SIGSTOP) continue;
        if (sigismember(&blocked, signal) != 1) return false;
        count++;
    }
    return count;
}

int wait_for_signal(Cord& cord, const sigset_t& set, signalfd_siginfo* info) {
    Fiber* me = cord.sched.current;
    if (me->sched.pending) return check_pending(cord, me);
    if (simulated()) return -ENOTSUP;
    KeepErrno keep;
    if (int error = cord.io ? 0 : Io::open(cord)) return error;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) return -errno;
    OwnDescriptor own;
    own.keep(cord, fd);
    DescriptorGuard guard(cord, fd);
    signalfd_siginfo taken;
    int result = wait_for_one(guard, fd, &taken);
    if (result > 0 && info) *info = taken;
    return result;
}

} // namespace fiberrt
