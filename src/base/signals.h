// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads of the library's own take no signals: those are for the program's threads, and for fibers that wait for them.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <signal.h>

namespace fiberrt {

// While one exists, the calling thread has all signals blocked, and so have, from then on, the threads that it makes;
// but for those that an instruction raises: blocked ones of these would end the process past its handlers.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t sent;
        sigfillset(&sent);
        constexpr int raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
        for (int signal : raised) sigdelset(&sent, signal);
        pthread_sigmask(SIG_BLOCK, &sent, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_;
};

// Starts one: 0 or -E.... Where a filter of system calls forbids it -EAGAIN: -EPERM tells callers that they call from the
// wrong place.
inline int thread_start(pthread_t* thread, const pthread_attr_t* attr, void* (*function)(void*), void* argument) {
    SignalsBlocked blocked;
    int error = pthread_create(thread, attr, function, argument);
    return error == EPERM ? -EAGAIN : -error;
}

} // namespace fiberrt
