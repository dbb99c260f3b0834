// SPDX-License-Identifier: MIT OR Apache-2.0
// Keeps the signals of a failed write away from the program: SIGPIPE of a pipe without a reader, and SIGXFSZ of a file
// that has reached its largest size. System calls only: at the C library's calls the thread could be cancelled.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

// While an object exists, the thread has the two signals blocked. At its end, the signal that the thread has raised is
// taken back.
class NoWriteSignals {
public:
    NoWriteSignals() {
        sigset_t both;
        sigemptyset(&both);
        sigaddset(&both, SIGPIPE);
        sigaddset(&both, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &both, &before_);
        sigemptyset(&pending_);
        syscall(SYS_rt_sigpending, &pending_, size_of_set);
    }
    ~NoWriteSignals() {
        if (raised && sigismember(&pending_, raised) != 1) { // one that was pending before must stay so
            constexpr timespec at_once = {};
            sigset_t it;
            sigemptyset(&it);
            sigaddset(&it, raised);
            syscall(SYS_rt_sigtimedwait, &it, nullptr, &at_once, size_of_set);
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoWriteSignals(const NoWriteSignals&) = delete;
    NoWriteSignals& operator=(const NoWriteSignals&) = delete;

    // Tells of the errno of a write that has failed.
    void failed(int error) { raised = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : raised; }

private:
    static constexpr size_t size_of_set = 8; // the kernel's

    int raised = 0;
    sigset_t before_, pending_;
};

} // namespace fiberrt
