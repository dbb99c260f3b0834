// SPDX-License-Identifier: MIT OR Apache-2.0
// The system call splice without SIGPIPE. Unlike other calls that write, it has no flag against that signal.
#include "io/op.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

namespace {

// Keeps SIGPIPE pending on the thread while it exists. take() removes the SIGPIPE that a splice has raised.
class NoSigpipe {
public:
    NoSigpipe() {
        sigemptyset(&only_);
        sigaddset(&only_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &only_, &before_);
        if (!sigismember(&before_, SIGPIPE)) return;
        sigset_t pending;
        was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE);
    }
    ~NoSigpipe() {
        if (!sigismember(&before_, SIGPIPE)) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    void take() {
        if (was_pending_) return; // a SIGPIPE was pending before: the two are one
        timespec at_once = {};
        while (sigtimedwait(&only_, nullptr, &at_once) < 0 && errno == EINTR) {}
    }

private:
    sigset_t only_;
    sigset_t before_;
    bool was_pending_ = false;
};

} // namespace

int64_t splice_call(const Op& op, size_t most) {
    size_t length = op.length < most ? op.length : most;
    const auto& out = *static_cast<const OutEnd*>(op.address);
    off_t from = off_t(op.offset), to = off_t(out.offset);
    NoSigpipe guard;
    int64_t result;
    do {
        result = splice(op.fd, from < 0 ? nullptr : &from, out.fd, to < 0 ? nullptr : &to, length,
                        op.flags | SPLICE_F_NONBLOCK);
    } while (result < 0 && errno == EINTR);
    if (result >= 0) return result;
    int error = errno;
    if (error == EPIPE) guard.take();
    errno = error;
    return result;
}

} // namespace fiberrt
