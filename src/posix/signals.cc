// SPDX-License-Identifier: MIT OR Apache-2.0
// sigwait, sigwaitinfo and sigtimedwait. A signalfd tells the fiber that a signal is pending; the C library's function
// then takes it. So no signal is lost if a wait ends early.
#include "posix/calls.h"
#include "posix/wait.h"

#include <sys/signalfd.h>

namespace fiberrt::posix {

namespace {

// Whether the set is readable, and the thread blocks all its signals. (The C library hides its own signals, and two
// cannot be blocked.)
bool is_blocked(const sigset_t* set) {
    constexpr size_t size_of_set = NSIG / 8; // the kernel's
    if (!is_readable(set, size_of_set)) return false;
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    for (int signal = 1; signal < NSIG; signal++) {
        if (sigismember(set, signal) != 1 || signal == SIGKILL || signal == SIGSTOP) continue;
        if (sigismember(&blocked, signal) != 1) return false;
    }
    return true;
}

class SignalDescriptor {
public:
    explicit SignalDescriptor(const sigset_t* set) : fd_(signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK)) {}
    ~SignalDescriptor() {
        if (fd_ < 0) return;
        KeepErrno keep;
        ::close(fd_);
    }
    SignalDescriptor(const SignalDescriptor&) = delete;
    SignalDescriptor& operator=(const SignalDescriptor&) = delete;
    int number() const { return fd_; }

private:
    int fd_;
};

// Returns the signal's number, or -1 and errno.
template <class Block>
int wait_for_signal(const sigset_t* set, siginfo_t* info, int64_t deadline, Block block) {
    constexpr timespec at_once = {0, 0};
    int taken = ::sigtimedwait(set, info, &at_once);
    if (taken >= 0 || errno != EAGAIN) {
        done_at_once();
        return taken;
    }
    if (!left_until(deadline)) return -1;
    SignalDescriptor pending(set);
    if (pending.number() < 0) return block();
    for (;;) {
        Next next = wait_ready(pending.number(), POLLIN, deadline);
        if (next == Next::block) return block();
        if (next == Next::fail) return -1;
        taken = ::sigtimedwait(set, info, &at_once);
        if (taken >= 0 || errno != EAGAIN) return taken;
        if (next == Next::timed_out) return -1;
    }
}

} // namespace

int sigtimedwait(const sigset_t* set, siginfo_t* info, const timespec* timeout) {
    auto block = [&] { return ::sigtimedwait(set, info, timeout); };
    if (!may_wait() || !is_blocked(set)) return block();
    if (timeout && (!is_readable(timeout) || !is_valid(*timeout))) return block();
    int64_t deadline = timeout ? deadline_after(nanoseconds(*timeout)) : FIBER_FOREVER;
    return wait_for_signal(set, info, deadline, block);
}

int sigwaitinfo(const sigset_t* set, siginfo_t* info) { return posix::sigtimedwait(set, info, nullptr); }

int sigwait(const sigset_t* set, int* signal) {
    if (!may_wait() || !is_blocked(set)) return ::sigwait(set, signal);
    for (;;) {
        siginfo_t info;
        int taken = posix::sigtimedwait(set, &info, nullptr);
        if (taken > 0) {
            *signal = taken;
            return 0;
        }
        if (errno != EINTR) return errno; // POSIX has no EINTR for this function
    }
}

} // namespace fiberrt::posix
