// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for child processes. The fiber waits for a pidfd of the child. If the call waits for any of several children,
// or also for a stopped child, the fiber looks at growing intervals. The C library's call reaps the child, without a
// wait, so a wait that ends early reaps nothing.
#include "posix/calls.h"
#include "posix/pauses.h"

#include <sys/syscall.h>

namespace fiberrt::posix {

namespace {

// A child whose end the fiber waits for.
class Child {
public:
    // pid: the child's, or not above 0: any child, or a wait for more than an end. pidfd: the caller's, or -1.
    Child(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}
    ~Child() {
        if (!own_) return;
        KeepErrno keep;
        ::close(pidfd_);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    // Waits until the child may have ended. Returns retry, fail or block.
    Next wait() {
        if (pidfd_ < 0 && pid_ > 0 && !opened_) {
            opened_ = true;
            pidfd_ = int(syscall(SYS_pidfd_open, pid_, 0));
            own_ = pidfd_ >= 0;
            if (own_) return Next::retry; // another process may have got the number meanwhile
        }
        if (pidfd_ < 0 || ended_) { // a debugger may still keep the end of an ended child
            Next next = pauses_.pause();
            return next == Next::timed_out ? Next::retry : next;
        }
        Next next = wait_ready(pidfd_, POLLIN, FIBER_FOREVER);
        ended_ = next == Next::retry;
        return next;
    }

private:
    pid_t pid_;
    int pidfd_;
    bool own_ = false;
    bool opened_ = false;
    bool ended_ = false;
    Pauses pauses_;
};

// Calls try_once() until it does not return 0, and waits in between.
template <class Try, class Block>
int until_reaped(pid_t pid, int pidfd, Try try_once, Block block) {
    Child child(pid, pidfd);
    for (bool waited = false;; waited = true) {
        int result = try_once();
        if (result) {
            if (!waited) done_at_once();
            return result;
        }
        switch (child.wait()) {
        case Next::block: return block();
        case Next::fail: return -1;
        default: break;
        }
    }
}

} // namespace

pid_t wait4(pid_t pid, int* status, int options, rusage* usage) noexcept {
    if (!may_wait()) return ::wait4(pid, status, options, usage);
    if (options & WNOHANG) {
        done_at_once();
        return ::wait4(pid, status, options, usage);
    }
    // A pidfd reports only the end of a child, and perhaps not for a call with __WNOTHREAD or __WCLONE.
    pid_t only = options ? -1 : pid;
    return until_reaped(
        only, -1, [&] { return ::wait4(pid, status, options | WNOHANG, usage); },
        [&] { return ::wait4(pid, status, options, usage); });
}

pid_t wait3(int* status, int options, rusage* usage) noexcept { return posix::wait4(-1, status, options, usage); }

pid_t waitpid(pid_t pid, int* status, int options) {
    return may_wait() ? posix::wait4(pid, status, options, nullptr) : ::waitpid(pid, status, options);
}

pid_t wait(int* status) { return posix::waitpid(-1, status, 0); }

int waitid(idtype_t kind, id_t id, siginfo_t* info, int options) {
    if (!may_wait()) return ::waitid(kind, id, info, options);
    if (options & WNOHANG) {
        done_at_once();
        return ::waitid(kind, id, info, options);
    }
    bool only_ends = (options & (WEXITED | WSTOPPED | WCONTINUED)) == WEXITED;
    siginfo_t own; // si_pid tells whether there was a child: the caller may pass null
    siginfo_t* told = info ? info : &own;
    auto try_once = [&] {
        told->si_pid = 0;
        if (::waitid(kind, id, told, options | WNOHANG)) return -1;
        return told->si_pid ? 1 : 0;
    };
    pid_t pid = only_ends && kind == P_PID ? pid_t(id) : -1;
    int pidfd = only_ends && kind == P_PIDFD ? int(id) : -1;
    int result = until_reaped(pid, pidfd, try_once, [&] { return ::waitid(kind, id, info, options); });
    return result > 0 ? 0 : result;
}

// The child of a vfork runs in the parent's memory: each call would act on the fibers of the parent. So it gets
// memory of its own.
pid_t vfork() noexcept { return ::fork(); }

} // namespace fiberrt::posix
